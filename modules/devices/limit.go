package devices

import (
	"net"
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

// boundedListener closes new connections while maxConnections are open.
type boundedListener struct {
	net.Listener

	mu   sync.Mutex
	open int
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.enter() {
			return &boundedConn{Conn: conn, leave: sync.OnceFunc(l.leave)}, nil
		}
		_ = conn.Close() // its caller notices
	}
}

func (l *boundedListener) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == maxConnections {
		return false
	}
	l.open++
	return true
}

func (l *boundedListener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// boundedConn is a connection that a boundedListener counts until it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
