package faults

import (
	"context"
	"sync"
)

// A Gate holds calls until it opens. The zero value is closed. In a
// testing/synctest bubble, make it inside.
type Gate struct {
	mu      sync.Mutex
	open    chan struct{} // created when it is first needed
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

// Waiting is the number of calls that wait at the gate.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// passage is closed when the gate opens. It must be called with mu held.
func (g *Gate) passage() chan struct{} {
	if g.open == nil {
		g.open = make(chan struct{})
	}
	return g.open
}

// arrive counts a call that comes (1) or goes (-1).
func (g *Gate) arrive(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
	return g.passage()
}

// Wait returns nil when the gate is open, and the error of ctx when that ends first.
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
