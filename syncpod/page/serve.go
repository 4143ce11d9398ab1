package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of a connection.
const (
	headerTimeout = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = time.Minute
	maxHeader     = 16 << 10
	// maxConnections limits the connections.
	maxConnections = 64
)

// Serve serves a [Page.Handler] on a listener until ctx ends, and then closes all connections. It returns an error if the
// listener's address is no loopback address, because the page has no authentication.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	if l == nil || h == nil {
		return errors.New("page: Serve needs a listener and a handler")
	}
	defer l.Close()
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("page: %s is no loopback address such as 127.0.0.1, and the page has no authentication", l.Addr())
	}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = server.Close()
	})
	err := server.Serve(&limited{l, make(chan struct{}, maxConnections)})
	if ctx.Err() == nil {
		return err
	}
	<-stopped
	return nil
}

// A limited listener closes connections beyond maxConnections.
type limited struct {
	net.Listener
	open chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.open <- struct{}{}:
			return &counted{Conn: conn, release: sync.OnceFunc(func() { <-l.open })}, nil
		default:
			_ = conn.Close() // the peer sees it
		}
	}
}

// A counted connection counts as open until it is closed.
type counted struct {
	net.Conn
	release func()
}

func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}
