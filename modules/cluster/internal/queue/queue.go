// Package queue looks at things again until that has succeeded.
package queue

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// A Queue has things that are to be looked at, each at most once at a time. Its methods may be
// called concurrently. Nothing runs before Run: client-go's queues would.
type Queue[K comparable] struct {
	first, last time.Duration

	mu sync.Mutex
	// early are those that came before Run, with when they are to be looked at.
	early map[K]time.Time
	queue workqueue.TypedRateLimitingInterface[K]
}

// New returns a Queue in which what has failed is tried again after first, and twice as long
// each time, up to last.
func New[K comparable](first, last time.Duration) *Queue[K] {
	return &Queue[K]{first: first, last: last, early: map[K]time.Time{}}
}

// Add has something looked at.
func (q *Queue[K]) Add(k K) { q.AddAfter(k, 0) }

// AddAfter has something looked at after a while.
func (q *Queue[K]) AddAfter(k K, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue != nil {
		q.queue.AddAfter(k, after)
		return
	}
	at := time.Now().Add(after)
	if known, ok := q.early[k]; !ok || at.Before(known) {
		q.early[k] = at
	}
}

// Run calls look for what was added, from so many goroutines, until ctx ends. What look has
// an error for is tried again, and told to failed, if ctx has not ended. It is called once.
func (q *Queue[K]) Run(ctx context.Context, workers int, look func(context.Context, K) error, failed func(K, error)) {
	q.begin()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for q.next(ctx, look, failed) {
			}
		})
	}
	<-ctx.Done()
	q.queue.ShutDown()
	all.Wait()
}

func (q *Queue[K]) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[K](q.first, q.last))
	for k, at := range q.early {
		q.queue.AddAfter(k, time.Until(at))
	}
	q.early = nil
}

func (q *Queue[K]) next(ctx context.Context, look func(context.Context, K) error, failed func(K, error)) bool {
	k, shutdown := q.queue.Get()
	if shutdown {
		return false
	}
	defer q.queue.Done(k)
	err := look(ctx, k)
	if err == nil || ctx.Err() != nil {
		q.queue.Forget(k)
		return true
	}
	failed(k, err)
	q.queue.AddRateLimited(k)
	return true
}
