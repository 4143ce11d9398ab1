package server

import (
	"context"
	"io"
	"net"
	"net/http"
)

// HandlerTransport returns a StreamTransport that calls h in the same process, for a backend without a streaming server: no port
// is opened, and the host in a Stream URL is ignored. h is what a streaming server would serve, for example the Server of
// k8s.io/cri-streaming, which calls functions for exec, attach and port-forward over all protocols. Each stream is one call of h,
// whose connection h hijacks. When the stream ends, the connection is closed, and h must return.
func HandlerTransport(h http.Handler) http.RoundTripper {
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		web := &http.Server{Handler: h, MaxHeaderBytes: maxRefusal}
		go func() { _ = web.Serve(&oneConn{conn: far}) }() // it returns at once, and the connection is served on
		return near, nil
	}
	return &http.Transport{
		DisableKeepAlives: true, DialContext: dial, DialTLSContext: dial, ResponseHeaderTimeout: openTime, MaxResponseHeaderBytes: maxRefusal,
	}
}

// oneConn is a listener that accepts one connection.
type oneConn struct{ conn net.Conn }

// Accept returns the connection once.
func (l *oneConn) Accept() (conn net.Conn, err error) {
	if conn, l.conn = l.conn, nil; conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

// Close closes nothing.
func (*oneConn) Close() error { return nil }

// Addr returns an address that no one can dial.
func (*oneConn) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "in process"} }
