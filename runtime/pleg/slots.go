package pleg

import (
	"context"
	"sync"
	"time"
)

// slots limit the concurrent inspections. A slow inspection releases its slot while it
// continues, so that inspections that hang cannot occupy all slots.
type slots chan struct{}

// take waits for a slot. The caller calls release at most once.
func (s slots) take(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-s })
	slow := time.AfterFunc(slowInspection, free)
	return func() {
		slow.Stop()
		free()
	}, nil
}
