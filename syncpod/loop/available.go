package loop

import "sync"

// awaitRuntime returns a channel that is closed when the runtime is available.
func (l *Loop) awaitRuntime() <-chan struct{} {
	back := l.runtime.close()
	if _, err := l.watcher.Available(); err == nil {
		l.runtime.open()
	}
	return back
}

// availableChanged is called by the watcher when the runtime becomes unavailable or available.
func (l *Loop) availableChanged(err error) {
	if err != nil {
		l.runtime.close()
		return
	}
	l.runtime.open()
	l.table.listed.Store(true)
	l.before.forgetOthers(l.watcher.Pods())
	l.table.reconcile.raise()
	l.table.housekeeping.raise()
}

// gate is open or closed. The zero gate is open.
type gate struct {
	mu sync.Mutex
	// opened is closed when the gate opens, and nil while it is open.
	opened chan struct{}
}

// close closes the gate if it is open, and returns a channel that is closed when it opens again.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	return g.opened
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
	}
	g.opened = nil
}
