package serve

import (
	"context"
	"sync"
	"time"

	"github.com/podsync/podsync/syncpod/server"
)

const (
	// maxReviews is how many reviews of a kind the API server is asked for at a time.
	maxReviews = 16
	// maxWaiting is how many more may wait for their turn. Further ones are refused at once.
	maxWaiting = 64
	// reviewTimeout bounds a review, with the wait for its turn.
	reviewTimeout = 10 * time.Second
)

// reviews asks the API server, with a bounded number of calls at a time and one call for all
// who ask the same at the same time.
type reviews[K comparable, V any] struct {
	slots chan struct{}

	mu      sync.Mutex
	flights map[K]*flight[V]
}

type flight[V any] struct {
	done  chan struct{}
	value V
	ok    bool
	err   error
}

func newReviews[K comparable, V any]() *reviews[K, V] {
	return &reviews[K, V]{slots: make(chan struct{}, maxReviews), flights: map[K]*flight[V]{}}
}

// do returns the result of ask for a key. The call outlives a caller who leaves: others may wait
// for it. It returns server.ErrBusy if too many wait already.
func (r *reviews[K, V]) do(ctx context.Context, key K, ask func(context.Context) (V, bool, error)) (value V, ok bool, err error) {
	r.mu.Lock()
	f, found := r.flights[key]
	if !found {
		if len(r.flights) >= maxReviews+maxWaiting {
			r.mu.Unlock()
			return value, false, server.ErrBusy
		}
		f = &flight[V]{done: make(chan struct{})}
		r.flights[key] = f
		go r.fly(context.WithoutCancel(ctx), key, f, ask)
	}
	r.mu.Unlock()
	select {
	case <-f.done:
		return f.value, f.ok, f.err
	case <-ctx.Done():
		return value, false, ctx.Err()
	}
}

func (r *reviews[K, V]) fly(ctx context.Context, key K, f *flight[V], ask func(context.Context) (V, bool, error)) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	defer func() {
		r.mu.Lock()
		delete(r.flights, key)
		r.mu.Unlock()
		close(f.done)
	}()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		f.value, f.ok, f.err = ask(ctx)
	case <-ctx.Done():
		f.err = server.ErrBusy
	}
}
