package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
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
	// TLS restricts what is agreed on with peers, by its MinVersion, CipherSuites and
	// CurvePreferences. Default: TLS 1.2 or later, with Go's choice of the others.
	TLS *tls.Config
	// Clients returns the authorities of client certificates, those of the Authenticator. A request
	// with a certificate of theirs does not compete with requests of strangers. Default: none.
	Clients func() *x509.CertPool
	// Log gets a line for what fails. Default silent.
	Log logr.Logger
}

const (
	// headerTimeout bounds the TLS handshake, and then the header of a request over HTTP/1.1.
	headerTimeout = 10 * time.Second
	// maxHeader bounds the header of a request, in bytes. The command of an exec is part of the URL, and the kernel
	// limits each argument to 128 KiB. Go's default is 1 MiB for each peer.
	maxHeader = 256 << 10
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 90 * time.Second
	// lastWords is how long answers have to come to their end.
	lastWords = time.Second

	// maxStreams is how many requests a connection of HTTP/2 may have open.
	maxStreams = 100
	// silence is how long a connection of HTTP/2 may be silent before it is pinged, and
	// pingTimeout how long it has to answer.
	silence, pingTimeout = 30 * time.Second, 15 * time.Second
	// stuckTimeout is how long it may take nothing of what is to be written.
	stuckTimeout = 30 * time.Second
	// receiveBuffer is how much of bodies it may send before it is read.
	receiveBuffer = 64 << 10
	// frameSize is the size of the largest frame that it may send.
	frameSize = 16 << 10
)

// Serve serves until ctx ends. Then no connection is left but streams, which end with their
// requests. If it cannot listen, Serve logs the error and retries every 5 s until ctx ends.
func Serve(ctx context.Context, c Config) error {
	if c.Handler == nil || c.Address == "" || c.Certificate == nil {
		return errors.New("serve: Config.Handler, Address or Certificate is missing")
	}
	if _, err := net.ResolveTCPAddr("tcp", c.Address); err != nil {
		return fmt.Errorf("serve: Config.Address: %w", err)
	}
	lis := listen(ctx, c.Address, c.Log)
	if lis == nil {
		return nil
	}
	return serve(ctx, c, lis)
}

func serve(ctx context.Context, c Config, lis net.Listener) error {
	if c.TLS == nil {
		c.TLS = &tls.Config{}
	}
	all := newPeers(c.Clients)
	server := newServer(c, all)
	if err := until(ctx, server, func() error { return server.ServeTLS(peerListener{lis, all}, "", "") }); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// until runs a server until ctx, which is that of its requests, ends or the server fails.
func until(ctx context.Context, server *http.Server, serve func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	var ending sync.WaitGroup
	ending.Go(func() {
		<-ctx.Done()
		last, done := context.WithTimeout(context.Background(), lastWords)
		defer done()
		_ = server.Shutdown(last) // what is left is closed
		_ = server.Close()
	})
	err := serve()
	cancel()
	ending.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// newServer returns a server whose peers are bounded.
func newServer(c Config, all *peers) *http.Server {
	return &http.Server{
		Handler: all.guard(c.Handler), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ConnContext: connected,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: silence, PingTimeout: pingTimeout, WriteByteTimeout: stuckTimeout,
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer, MaxReadFrameSize: frameSize,
		},
		ErrorLog: log.New(failures{c.Log, new(atomic.Int64)}, "", 0),
		TLSConfig: &tls.Config{
			MinVersion: max(tls.VersionTLS12, c.TLS.MinVersion), CipherSuites: c.TLS.CipherSuites, CurvePreferences: c.TLS.CurvePreferences,
			ClientAuth:     tls.RequestClientCert,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Certificate() },
		},
	}
}

// reportInterval is the time between two lines about failures of the server: a peer can cause one
// with each of its requests.
const reportInterval = time.Second

// failures logs the failures of a server itself: a handler that panicked, and a listener that
// fails. All else is about peers, and any peer can have as many lines of it as it likes.
type failures struct {
	log  logr.Logger
	next *atomic.Int64 // when another line may be written
}

func (f failures) Write(line []byte) (int, error) {
	for _, own := range []string{"http: panic", "http2: panic serving", "http: Accept error"} {
		if !bytes.HasPrefix(line, []byte(own)) {
			continue
		}
		now, next := time.Now().UnixNano(), f.next.Load()
		if now >= next && f.next.CompareAndSwap(next, now+int64(reportInterval)) {
			f.log.Info("The server reports a failure", "failure", string(bytes.TrimSpace(line)))
		}
	}
	return len(line), nil
}
