package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// defaultStreamIdleTimeout is a kubelet's.
	defaultStreamIdleTimeout = 4 * time.Hour
	// maxStreams bounds the streams that are open at a time, and maxStreamsOfUser those of one
	// user. All users of an API server are one user here.
	maxStreams, maxStreamsOfUser = 512, 384
)

// openStreams counts the streams that are open.
type openStreams struct {
	mu     sync.Mutex
	count  int
	byUser map[string]int
}

// enter counts one more of a user, and reports whether that may be.
func (o *openStreams) enter(user string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count >= maxStreams || o.byUser[user] >= maxStreamsOfUser {
		return false
	}
	if o.byUser == nil {
		o.byUser = map[string]int{}
	}
	o.byUser[user]++
	o.count++
	return true
}

func (o *openStreams) leave(user string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count--
	if o.byUser[user]--; o.byUser[user] == 0 {
		delete(o.byUser, user)
	}
}

// begin counts a stream and writes its line in the audit log: which user does what to which
// container. It does not write the command or what is sent: they may hold secrets. The caller
// calls end when the stream has ended.
func (s *Server) begin(r *http.Request, verb, container, id string) (end func(), err error) {
	user := userOf(r)
	log := s.config.Log.WithValues("user", user, "verb", verb, "pod", r.PathValue("namespace")+"/"+r.PathValue("pod"), "container", container, "id", id)
	if !s.open.enter(user) {
		log.Info("Stream is refused: too many are open")
		return nil, &statusError{http.StatusTooManyRequests, errTooManyStreams}
	}
	begun := time.Now()
	log.Info("Stream begins")
	return func() {
		s.open.leave(user)
		log.Info("Stream has ended", "duration", time.Since(begun))
	}, nil
}

// An activeConn closes its connection when nothing was read or written for a time.
type activeConn struct {
	net.Conn
	idle  time.Duration
	timer *time.Timer
}

// hold returns a connection that ends with a context, and when it is idle.
func (s *Server) hold(ctx context.Context, conn net.Conn) net.Conn {
	idle := s.config.StreamIdleTimeout
	c := &activeConn{Conn: conn, idle: idle, timer: time.AfterFunc(idle, func() { conn.Close() })}
	context.AfterFunc(ctx, func() { c.Close() })
	return c
}

// Read reads.
func (c *activeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.moved(n)
	return n, err
}

// Write writes.
func (c *activeConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.moved(n)
	return n, err
}

// moved begins the time anew, unless the connection is closed.
func (c *activeConn) moved(n int) {
	if n > 0 && c.timer.Stop() {
		c.timer.Reset(c.idle)
	}
}

// Close closes the connection.
func (c *activeConn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}
