package devices

import (
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxConnections bounds the open connections of callers, and maxCalls the calls of each. An answer is
	// held until its caller has read it, so together they bound the answers.
	maxConnections, maxCalls = 32, 4
	// maxRequest and maxHeaders bound what a caller sends with one call, in bytes.
	maxRequest, maxHeaders = 64 << 10, 16 << 10
	// idleTime is how long a connection without a call may last.
	idleTime = time.Minute
)

// newServer returns a gRPC server whose callers take bounded memory.
func newServer() *grpc.Server {
	return grpc.NewServer(grpc.WaitForHandlers(true), grpc.MaxConcurrentStreams(maxCalls), grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaders), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime}))
}

// boundedListener closes new connections while maxConnections are open. Its Close closes them all: a
// gRPC server that stops waits for callers that have connected and say nothing.
type boundedListener struct {
	net.Listener

	mu     sync.Mutex
	open   map[*boundedConn]bool
	closed bool
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if bounded := l.enter(conn); bounded != nil {
			return bounded, nil
		}
		_ = conn.Close() // its caller notices
	}
}

// enter counts a connection, and returns nil if it is one too many.
func (l *boundedListener) enter(conn net.Conn) *boundedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.open) == maxConnections {
		return nil
	}
	if l.open == nil {
		l.open = map[*boundedConn]bool{}
	}
	c := &boundedConn{Conn: conn, of: l}
	l.open[c] = true
	return c
}

func (l *boundedListener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	l.closed = true
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the server may have closed it
	}
	return err
}

// boundedConn is a connection that a boundedListener counts until it is closed.
type boundedConn struct {
	net.Conn
	of *boundedListener
}

func (c *boundedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
