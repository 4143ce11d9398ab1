package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// defaultStreamIdleTimeout is a kubelet's.
	defaultStreamIdleTimeout = 4 * time.Hour
	// maxStreams limits the open streams. All users behind an API server are one user
	// here, so one namespace, and one pod, must leave some of that user's streams to others. One pod
	// may have 100 commands and 200 followers at the same time.
	maxStreams, maxStreamsOfUser, maxStreamsOfNamespace, maxStreamsOfPod = 512, 384, 352, 320
	// fairShare limits a user's streams to one namespace: to fairShare times the number that the user
	// has left. The more namespaces have streams, the fewer each may have, and the next namespace
	// still gets some. A single namespace may have 320, as many as a pod.
	fairShare = 5
)

// A streamScope is a part of the node with a limit of open streams: the node itself, a user, a
// namespace, a pod, or the share of a user that a namespace has.
type streamScope struct{ kind, name string }

// A streamLimit is the number of streams that may be open in a scope. If of is set, the scope
// is a share of that scope, whose limit is most.
type streamLimit struct {
	scope streamScope
	most  int
	of    *streamScope
}

func streamLimits(user, namespace, pod string) []streamLimit {
	ofUser := streamScope{"user", user}
	return []streamLimit{
		{scope: streamScope{"pod", namespace + "/" + pod}, most: maxStreamsOfPod},
		{scope: streamScope{"namespace", namespace}, most: maxStreamsOfNamespace},
		{scope: ofUser, most: maxStreamsOfUser},
		{scope: streamScope{"namespace's share of a user", namespace + "/" + user}, most: maxStreamsOfUser, of: &ofUser},
		{scope: streamScope{kind: "node"}, most: maxStreams},
	}
}

// openStreams counts the streams that are open in each scope.
type openStreams struct {
	mu    sync.Mutex
	count map[streamScope]int
}

// enter counts one more stream in each scope, or returns an error that names the first scope whose
// limit is reached. The limit for the share follows from what the user has left.
func (o *openStreams) enter(limits []streamLimit) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range limits {
		open := o.count[l.scope]
		switch {
		case l.of != nil:
			if most := fairShare * max(l.most-o.count[*l.of], 0); open >= most {
				return fmt.Errorf("the user has too many streams to this namespace: at most %d while %d are open in total", most, o.count[*l.of])
			}
		case open >= l.most:
			return fmt.Errorf("too many streams are open: the limit of a %s is %d", l.scope.kind, l.most)
		}
	}
	if o.count == nil {
		o.count = map[streamScope]int{}
	}
	for _, l := range limits {
		o.count[l.scope]++
	}
	return nil
}

func (o *openStreams) leave(limits []streamLimit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range limits {
		if o.count[l.scope]--; o.count[l.scope] == 0 {
			delete(o.count, l.scope)
		}
	}
}

// begin counts a stream and writes its line in the audit log: the user, the verb and the container.
// It does not write the command or the data, which may be secret. The caller calls end when the
// stream has ended.
func (s *streamer) begin(r *http.Request, verb, container, id string) (end func(), err error) {
	limits, err := s.enter(r, verb)
	if err != nil {
		return nil, err
	}
	log := s.log.WithValues(streamValues(r, verb, container, id)...)
	begun := time.Now()
	log.Info("Stream begins")
	return func() {
		s.open.leave(limits)
		log.Info("Stream has ended", "duration", time.Since(begun))
	}, nil
}

// read counts a log that is not followed as a stream. Its log line is limited like those of other
// requests.
func (s *streamer) read(r *http.Request, container, id string) (end func(), err error) {
	limits, err := s.enter(r, "containerLogs")
	if err != nil {
		return nil, err
	}
	event := "log of " + r.PathValue("namespace") + "/" + r.PathValue("pod") + "/" + container
	s.line(userOf(r), event).WithValues(streamValues(r, "containerLogs", container, id)...).Info("Log is read")
	return func() { s.open.leave(limits) }, nil
}

// enter counts a stream, or refuses it.
func (s *streamer) enter(r *http.Request, verb string) ([]streamLimit, error) {
	limits := streamLimits(userOf(r), r.PathValue("namespace"), r.PathValue("pod"))
	if err := s.open.enter(limits); err != nil {
		log := s.line(userOf(r), "refused")
		log.Info("Stream is refused", append(streamValues(r, verb, r.PathValue("container"), ""), "reason", err.Error())...)
		return nil, &statusError{http.StatusTooManyRequests, err}
	}
	return limits, nil
}

// streamValues returns the values of a stream's log lines.
func streamValues(r *http.Request, verb, container, id string) []any {
	return append(userValues(r, callerOf(r)),
		"verb", verb, "pod", r.PathValue("namespace")+"/"+r.PathValue("pod"), "container", container, "id", id)
}

// An activeConn closes its connection when nothing was read or written for a time.
type activeConn struct {
	net.Conn
	idle  time.Duration
	timer *time.Timer
}

// hold returns a connection that ends with a context, and when it is idle.
func (s *streamer) hold(ctx context.Context, conn net.Conn) net.Conn {
	idle := s.idle
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

// moved restarts the idle timeout after data was read or written, unless the connection is closed.
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
