// Package queue processes keys and retries failures with back-off.
package queue

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// A Queue holds keys to process; each key is processed by one goroutine at a time. Its methods may
// be called concurrently. Unlike client-go's queues, it starts no goroutine before Run.
type Queue[K comparable] struct {
	first, last time.Duration

	mu sync.Mutex
	// pending are the keys that were added before Run, with the times when they are due.
	pending map[K]time.Time
	queue   workqueue.TypedRateLimitingInterface[K]
}

// New returns a Queue. A failed key is retried after first, and the back-off doubles up to last.
func New[K comparable](first, last time.Duration) *Queue[K] {
	return &Queue[K]{first: first, last: last, pending: map[K]time.Time{}}
}

// Add enqueues a key.
func (q *Queue[K]) Add(k K) { q.AddAfter(k, 0) }

// AddAfter enqueues a key after a delay.
func (q *Queue[K]) AddAfter(k K, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue != nil {
		q.queue.AddAfter(k, after)
		return
	}
	at := time.Now().Add(after)
	if known, ok := q.pending[k]; !ok || at.Before(known) {
		q.pending[k] = at
	}
}

// Run calls process for each enqueued key, from the given number of goroutines, until ctx ends. If
// process fails and ctx has not ended, Run calls failed and retries. Run must be called once.
func (q *Queue[K]) Run(ctx context.Context, workers int, process func(context.Context, K) error, failed func(K, error)) {
	q.start()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for q.next(ctx, process, failed) {
			}
		})
	}
	<-ctx.Done()
	q.queue.ShutDown()
	all.Wait()
}

func (q *Queue[K]) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[K](q.first, q.last))
	for k, at := range q.pending {
		q.queue.AddAfter(k, time.Until(at))
	}
	q.pending = nil
}

func (q *Queue[K]) next(ctx context.Context, process func(context.Context, K) error, failed func(K, error)) bool {
	k, shutdown := q.queue.Get()
	if shutdown {
		return false
	}
	defer q.queue.Done(k)
	err := process(ctx, k)
	if err == nil || ctx.Err() != nil {
		q.queue.Forget(k)
		return true
	}
	failed(k, err)
	q.queue.AddRateLimited(k)
	return true
}
