package watch

import (
	"context"
	"sync"
	"time"
)

// slots bound how many looks run at a time. A look that is slow gives its slot
// back while it goes on, so that no number of looks that hang can take them all.
type slots chan struct{}

// take waits for a slot. Release may be called once or not at all.
func (s slots) take(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-s })
	slow := time.AfterFunc(slowLook, free)
	return func() {
		slow.Stop()
		free()
	}, nil
}
