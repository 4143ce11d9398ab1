package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config says how a node is served.
type Config struct {
	// Handler answers. Required.
	Handler http.Handler
	// Address is where to listen, such as ":10250". Required.
	Address string
	// Certificate returns the certificate of the node. Required. It is called for each
	// connection, so that another one counts at once.
	Certificate func() (*tls.Certificate, error)
}

const (
	// headerTimeout bounds the time in which a request has to say what it wants.
	headerTimeout = 30 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 90 * time.Second
	// lastWords is how long answers have to come to their end.
	lastWords = time.Second
)

// Serve serves until ctx ends. Then no connection is left but streams, which end with their
// requests.
func Serve(ctx context.Context, c Config) error {
	if c.Handler == nil || c.Address == "" || c.Certificate == nil {
		return errors.New("serve: Config.Handler, Address or Certificate is missing")
	}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return serve(ctx, c, lis)
}

func serve(ctx context.Context, c Config, lis net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{
		Handler: c.Handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Certificate() },
		},
	}
	var ending sync.WaitGroup
	ending.Go(func() {
		<-ctx.Done()
		last, done := context.WithTimeout(context.Background(), lastWords)
		defer done()
		_ = server.Shutdown(last) // what is left is closed
		_ = server.Close()
	})
	err := server.ServeTLS(lis, "", "")
	cancel()
	ending.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// Files returns a Config.Certificate of two files. They are read again when a minute has
// passed, so that a certificate that was renewed there counts. What cannot be read is no
// matter as long as the certificate before is valid.
func Files(certificate, key string) func() (*tls.Certificate, error) {
	var mu sync.Mutex
	var last *tls.Certificate
	var read time.Time
	return func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if last != nil && time.Since(read) < time.Minute {
			return last, nil
		}
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil && (last == nil || time.Now().After(last.Leaf.NotAfter)) {
			return nil, err
		}
		if err == nil {
			last = &pair
		}
		read = time.Now()
		return last, nil
	}
}
