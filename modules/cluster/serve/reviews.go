package serve

import (
	"context"
	"sync"
	"time"

	"github.com/podsync/podsync/syncpod/server"
)

const (
	// maxReviews is the maximum number of concurrent reviews of a kind.
	maxReviews = 16
	// maxWaiting is how many more may be queued. Further ones are rejected immediately.
	maxWaiting = 64
	// reviewTimeout limits a review, including its time in the queue.
	reviewTimeout = 10 * time.Second
)

// reviews asks the API server, with a bounded number of calls at a time and one call for all
// who ask the same at the same time.
type reviews[K comparable, V any] struct {
	slots chan struct{}

	mu      sync.Mutex
	flights map[K]*flight[V]
}

// A flight is one call. waiters is guarded by the lock of the reviews.
type flight[V any] struct {
	waiters int
	cancel  context.CancelFunc

	done  chan struct{}
	value V
	ok    bool
	err   error
}

func newReviews[K comparable, V any]() *reviews[K, V] {
	return &reviews[K, V]{slots: make(chan struct{}, maxReviews), flights: map[K]*flight[V]{}}
}

// do returns the result of ask for a key. The call outlives a caller who leaves as long as others
// wait for it: the last one to leave cancels it, so that a caller who does not wait takes no place.
// It returns server.ErrBusy if too many wait already.
func (r *reviews[K, V]) do(ctx context.Context, key K, ask func(context.Context) (V, bool, error)) (value V, ok bool, err error) {
	f := r.join(ctx, key, ask)
	if f == nil {
		return value, false, server.ErrBusy
	}
	select {
	case <-f.done:
		return f.value, f.ok, f.err
	case <-ctx.Done():
		r.leave(key, f)
		return value, false, ctx.Err()
	}
}

// join returns the flight of a key. It starts one if there is none, and returns nil if there are
// too many.
func (r *reviews[K, V]) join(ctx context.Context, key K, ask func(context.Context) (V, bool, error)) *flight[V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, found := r.flights[key]
	if !found {
		if len(r.flights) >= maxReviews+maxWaiting {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		f = &flight[V]{done: make(chan struct{}), cancel: cancel}
		r.flights[key] = f
		go r.fly(ctx, key, f, ask)
	}
	f.waiters++
	return f
}

// leave cancels a flight for which no other caller waits. The next caller starts another one.
func (r *reviews[K, V]) leave(key K, f *flight[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel()
		r.forget(key, f)
	}
}

// forget removes a flight. The caller holds the lock.
func (r *reviews[K, V]) forget(key K, f *flight[V]) {
	if r.flights[key] == f {
		delete(r.flights, key)
	}
}

func (r *reviews[K, V]) fly(ctx context.Context, key K, f *flight[V], ask func(context.Context) (V, bool, error)) {
	defer f.cancel()
	defer func() {
		r.mu.Lock()
		r.forget(key, f)
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
