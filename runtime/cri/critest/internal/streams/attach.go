package streams

import (
	"io"
	"slices"
	"sync"
)

// An audience is the clients that are attached to a process.
type audience struct {
	mu        sync.Mutex
	listeners []*listener
}

// join adds a listener. It receives the further output until leave is called.
func (a *audience) join(l *listener) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listeners = append(a.listeners, l)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.listeners = slices.DeleteFunc(a.listeners, func(one *listener) bool { return one == l })
		l.close()
	}
}

// A heard stream is written to a log and to the audience, without blocking the process.
type heard struct {
	log      io.Writer
	audience *audience
	channel  byte
}

func (h heard) Write(b []byte) (int, error) {
	h.audience.mu.Lock()
	for _, l := range h.audience.listeners {
		l.add(h.channel, b)
	}
	h.audience.mu.Unlock()
	return h.log.Write(b)
}

// A listener receives output at its own speed.
type listener struct {
	wants map[byte]bool // channels

	mu     sync.Mutex
	queue  [][]byte // the first byte is the channel
	size   int      // of the queue, in bytes
	closed bool
	more   chan struct{} // receives when the queue has changed
}

func newListener(out, errs bool) *listener {
	return &listener{wants: map[byte]bool{Stdout: out, Stderr: errs}, more: make(chan struct{}, 1)}
}

// add enqueues output. Output beyond the limit is dropped.
func (l *listener) add(channel byte, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wants[channel] || l.size+len(b) > maxInput {
		return
	}
	l.queue = append(l.queue, slices.Concat([]byte{channel}, b))
	l.size += len(b)
	notify(l.more)
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	notify(l.more)
}

// send sends the queue until it is closed and empty, or the client disconnects.
func (l *listener) send(ch *channels) {
	for {
		l.mu.Lock()
		queue, closed := l.queue, l.closed
		l.queue, l.size = nil, 0
		l.mu.Unlock()
		for _, message := range queue {
			if ch.conn.Write(message) != nil {
				return
			}
		}
		switch {
		case len(queue) > 0:
		case closed:
			return
		default:
			<-l.more
		}
	}
}
