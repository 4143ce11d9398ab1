package serve

import (
	"context"
	"sync"
	"time"

	"github.com/podsync/podsync/syncpod/server"
)

const (
	// maxReviews limits the concurrent reviews of a kind.
	maxReviews = 16
	// maxWaiting is how many more may be queued. Further ones are rejected immediately.
	maxWaiting = 64
	// reviewTimeout limits a review, including its time in the queue.
	reviewTimeout = 10 * time.Second
)

// reviews sends reviews to the API server. The number of concurrent calls is bounded, and concurrent callers with the
// same key share one call.
type reviews[K comparable, V any] struct {
	slots chan struct{}

	mu    sync.Mutex
	calls map[K]*call[V]
}

// A call is one call to the API server. waiters is guarded by the reviews' lock.
type call[V any] struct {
	waiters int
	cancel  context.CancelFunc

	done  chan struct{}
	value V
	ok    bool
	err   error
}

func newReviews[K comparable, V any]() *reviews[K, V] {
	return &reviews[K, V]{slots: make(chan struct{}, maxReviews), calls: map[K]*call[V]{}}
}

// do returns the result of ask for a key. If ctx ends, do returns, and the call continues while other callers wait for
// it: the last caller cancels it, so that abandoned calls take no slot. If too many calls wait already, do returns
// server.ErrBusy.
func (r *reviews[K, V]) do(ctx context.Context, key K, ask func(context.Context) (V, bool, error)) (value V, ok bool, err error) {
	f := r.join(ctx, key, ask)
	if f == nil {
		return value, false, server.ErrBusy
	}
	select {
	case <-f.done:
		return f.value, f.ok, f.err
	case <-ctx.Done():
		r.abandon(key, f)
		return value, false, ctx.Err()
	}
}

// join returns the call for a key. It starts one if there is none, and returns nil if there are
// too many.
func (r *reviews[K, V]) join(ctx context.Context, key K, ask func(context.Context) (V, bool, error)) *call[V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, found := r.calls[key]
	if !found {
		if len(r.calls) >= maxReviews+maxWaiting {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		f = &call[V]{done: make(chan struct{}), cancel: cancel}
		r.calls[key] = f
		go r.run(ctx, key, f, ask)
	}
	f.waiters++
	return f
}

// abandon cancels a call for which no other caller waits. The next caller starts another one.
func (r *reviews[K, V]) abandon(key K, f *call[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel()
		r.forget(key, f)
	}
}

// forget removes a call. The caller holds the lock.
func (r *reviews[K, V]) forget(key K, f *call[V]) {
	if r.calls[key] == f {
		delete(r.calls, key)
	}
}

func (r *reviews[K, V]) run(ctx context.Context, key K, f *call[V], ask func(context.Context) (V, bool, error)) {
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
