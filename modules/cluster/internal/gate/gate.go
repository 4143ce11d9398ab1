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

// Requests of one RequestType are counted together.
type RequestType struct {
	// Verb and Resource are those of the Kubernetes API, such as patch and pods/status.
	Verb, Resource string
	// Code is the status code of the response, 0 if there was none.
	Code int
}

// Failed reports whether the requests failed, except for objects that do not exist, exist already or have changed: clients
// handle these.
func (t RequestType) Failed() bool {
	switch t.Code {
	case http.StatusNotFound, http.StatusConflict, http.StatusGone:
		return false
	}
	return t.Code == 0 || t.Code >= http.StatusBadRequest
}

// A Gate is the client transport. Its methods may be called concurrently.
type Gate struct {
	next http.RoundTripper
	// verbAndResource returns those of a request.
	verbAndResource func(*http.Request) (verb, resource string)

	mu        sync.Mutex
	downUntil time.Time
	counts    map[RequestType]int
	// open ends when open requests must break.
	open context.Context
	end  context.CancelFunc
}

// New returns a Gate in front of a transport. verbAndResource returns those of a request.
func New(next http.RoundTripper, verbAndResource func(*http.Request) (verb, resource string)) *Gate {
	g := &Gate{next: next, verbAndResource: verbAndResource, counts: map[RequestType]int{}}
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

// Counts returns the number of requests that have a response or have failed.
func (g *Gate) Counts() map[RequestType]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}

// enter returns the context of the requests that are open, nil if connections are refused.
func (g *Gate) enter() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.downUntil) {
		return nil
	}
	return g.open
}

func (g *Gate) count(req *http.Request, code int) {
	t := RequestType{Code: code}
	t.Verb, t.Resource = g.verbAndResource(req)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[t]++
}

// RoundTrip passes a request on.
func (g *Gate) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := g.roundTrip(req)
	switch {
	case err == nil:
		g.count(req, answer.StatusCode)
	case req.Context().Err() == nil: // the client did not give up
		g.count(req, 0)
	}
	return answer, err
}

func (g *Gate) roundTrip(req *http.Request) (*http.Response, error) {
	open := g.enter()
	if open == nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED)
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

// body releases its request's resources when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
