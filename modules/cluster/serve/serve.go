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

// Config configures Serve.
type Config struct {
	// Handler answers the requests. Required.
	Handler http.Handler
	// Address is the address to listen on, such as ":10250". Required.
	Address string
	// Certificate returns the node's certificate. Required. It is called for each connection, so
	// that a renewed certificate takes effect immediately.
	Certificate func() (*tls.Certificate, error)
	// TLS restricts the MinVersion, CipherSuites and CurvePreferences of connections. Default: TLS
	// 1.2 or later, with Go's defaults for the others.
	TLS *tls.Config
	// Clients returns the authorities of client certificates, the same as the Authenticator's.
	// Requests with their certificates do not compete with requests of strangers. Default: none.
	Clients func() *x509.CertPool
	// Log receives errors. Default: no log.
	Log logr.Logger
}

const (
	// headerTimeout bounds the TLS handshake, and then the header of a request over HTTP/1.1.
	headerTimeout = 10 * time.Second
	// maxHeader bounds a request's header, in bytes. An exec's command is part of the URL, and the kernel limits
	// each argument to 128 KiB. Go's default is 1 MiB for each peer.
	maxHeader = 256 << 10
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 90 * time.Second
	// shutdownTimeout is the response timeout after the end of ctx.
	shutdownTimeout = time.Second

	// maxStreams limits the concurrent requests on an HTTP/2 connection.
	maxStreams = 100
	// pingAfter is the time without a frame after which an HTTP/2 connection is pinged, pingTimeout
	// the response's timeout.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
	// stuckTimeout is how long a write to the connection may make no progress.
	stuckTimeout = 30 * time.Second
	// receiveBuffer is how many bytes of request bodies a peer may send before the server reads them.
	receiveBuffer = 64 << 10
	// frameSize is a frame's maximum size from the peer.
	frameSize = 16 << 10
)

// Serve serves until ctx ends. After it returns, only streams have connections, which end with
// their requests. If it cannot listen, Serve logs the error and retries every 5 s until ctx ends.
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

// until runs a server until ctx, the parent of its requests' contexts, ends or the server fails.
func until(ctx context.Context, server *http.Server, serve func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	var ending sync.WaitGroup
	ending.Go(func() {
		<-ctx.Done()
		last, done := context.WithTimeout(context.Background(), shutdownTimeout)
		defer done()
		_ = server.Shutdown(last) // remaining connections are closed
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

// newServer returns a server with limits on its peers.
func newServer(c Config, all *peers) *http.Server {
	return &http.Server{
		Handler: all.guard(c.Handler), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ConnContext: connected,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: stuckTimeout,
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

// failures logs failures of the server itself: a handler's panic, and a failed listener. It drops
// messages about peers, because any peer can cause any number of them.
type failures struct {
	log  logr.Logger
	next *atomic.Int64 // the earliest time of the next line
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
