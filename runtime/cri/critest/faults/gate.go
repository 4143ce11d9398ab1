package faults

import (
	"context"
	"sync"
)

// A Gate blocks calls until it opens. The zero Gate is closed. For a testing/synctest bubble, create
// it inside the bubble.
type Gate struct {
	mu      sync.Mutex
	open    chan struct{} // created at its first use
	opened  bool
	waiting int
}

// Open lets all calls pass, now and later.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened {
		return
	}
	g.opened = true
	close(g.passage())
}

// Waiting returns the number of calls that wait at the gate.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// passage returns a channel that is closed when the gate opens. It must be called with mu held.
func (g *Gate) passage() chan struct{} {
	if g.open == nil {
		g.open = make(chan struct{})
	}
	return g.open
}

// arrive counts a call that arrives (1) or leaves (-1).
func (g *Gate) arrive(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
	return g.passage()
}

// Wait returns nil when the gate is open, or the error of ctx if ctx ends first.
func (g *Gate) Wait(ctx context.Context) error {
	passage := g.arrive(1)
	defer g.arrive(-1)
	select {
	case <-passage:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
