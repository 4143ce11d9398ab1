package syncpod

import (
	"context"
	"sync"
)

// A turn is a lock whose waiters can give up. The zero turn is unlocked.
type turn struct {
	mu    sync.Mutex
	taken bool
	// freed is closed when the turn is released, nil if no caller waits for it.
	freed chan struct{}
}

// take waits for the turn. If ctx ends first, it returns ctx's error.
func (t *turn) take(ctx context.Context) error {
	for {
		freed := t.tryTake()
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryTake takes the turn if it is free, and otherwise returns a channel that is closed when it is.
func (t *turn) tryTake() (freed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return nil
	}
	if t.freed == nil {
		t.freed = make(chan struct{})
	}
	return t.freed
}

// end frees the turn.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}
