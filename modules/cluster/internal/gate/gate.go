// Package gate is a transport between clients and an API server that counts requests and can refuse connections.
package gate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// A Gate is the transport of clients. Its methods may be called concurrently.
type Gate struct {
	next http.RoundTripper
	// name returns the name under which a request is counted.
	name func(*http.Request) string

	mu        sync.Mutex
	downUntil time.Time
	counts    map[string]int
	// open ends when open requests must break.
	open context.Context
	end  context.CancelFunc
}

// New returns a Gate in front of a transport. name returns the name under which a request is counted.
func New(next http.RoundTripper, name func(*http.Request) string) *Gate {
	g := &Gate{next: next, name: name, counts: map[string]int{}}
	g.open, g.end = context.WithCancel(context.Background())
	return g
}

// Unavailable refuses connections for a duration, and breaks open requests.
func (g *Gate) Unavailable(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.downUntil = time.Now().Add(d)
	g.end()
	g.open, g.end = context.WithCancel(context.Background())
}

// Counts returns the number of requests by name, including refused ones.
func (g *Gate) Counts() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}

func (g *Gate) enter(req *http.Request) (context.Context, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[g.name(req)]++
	if time.Now().Before(g.downUntil) {
		return nil, fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED)
	}
	return g.open, nil
}

// RoundTrip passes a request on.
func (g *Gate) RoundTrip(req *http.Request) (*http.Response, error) {
	open, err := g.enter(req)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(open, cancel)
	answer, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	answer.Body = &body{answer.Body, func() { stop(); cancel() }}
	return answer, nil
}

// body releases the resources of its request when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
