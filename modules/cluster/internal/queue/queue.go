// Package queue processes keys and retries failures with back-off.
package queue

import (
	"context"
	"sync"
	"time"
)

// A Queue holds keys to process; each key is processed by one goroutine at a time. Its methods may
// be called concurrently. An idle Queue has no goroutines except the one that calls Run, and client-go's queues have
// several: a process with a thousand nodes has a thousand queues.
type Queue[K comparable] struct {
	first, last time.Duration

	mu sync.Mutex
	// work is nil before Run and after it.
	work func()
	// idle is the number of goroutines that may still be started.
	idle int
	// ready are the keys to process, in order. queued has the same keys.
	ready  []K
	queued map[K]bool
	// processing are the keys that are processed now, with true if they were added again meanwhile.
	processing map[K]bool
	// failures are the numbers of consecutive failures.
	failures map[K]int
	delayed  map[K]delay
}

// A delay is when a key becomes ready. Its timer is nil before Run.
type delay struct {
	at    time.Time
	timer *time.Timer
}

// New returns a Queue. A failed key is retried after first, and the back-off doubles up to last.
func New[K comparable](first, last time.Duration) *Queue[K] {
	return &Queue[K]{first: first, last: last, queued: map[K]bool{}, processing: map[K]bool{}, failures: map[K]int{}, delayed: map[K]delay{}}
}

// Add enqueues a key.
func (q *Queue[K]) Add(k K) { q.AddAfter(k, 0) }

// AddAfter enqueues a key after a delay. The earliest of several delays counts.
func (q *Queue[K]) AddAfter(k K, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if after <= 0 {
		q.add(k)
		return
	}
	at := time.Now().Add(after)
	if known, ok := q.delayed[k]; ok {
		if !at.Before(known.at) {
			return
		}
		known.stop()
	}
	q.delayed[k] = delay{at: at}
	if q.work != nil {
		q.arm(k)
	}
}

func (d delay) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// arm starts a delayed key's timer. It is called with mu held.
func (q *Queue[K]) arm(k K) {
	at := q.delayed[k].at
	q.delayed[k] = delay{at, time.AfterFunc(time.Until(at), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.work != nil && q.delayed[k].at.Equal(at) {
			delete(q.delayed, k)
			q.add(k)
		}
	})}
}

// add enqueues a key at once. It is called with mu held.
func (q *Queue[K]) add(k K) {
	if _, busy := q.processing[k]; busy {
		q.processing[k] = true
		return
	}
	if q.queued[k] {
		return
	}
	q.queued[k] = true
	q.ready = append(q.ready, k)
	q.startWorker()
}

// startWorker starts a goroutine for a ready key, unless all run. It is called with mu held.
func (q *Queue[K]) startWorker() {
	if q.work != nil && q.idle > 0 {
		q.idle--
		q.work()
	}
}

// Run calls process for each enqueued key, from at most the given number of goroutines, until ctx ends. If
// process fails and ctx has not ended, Run calls failed and retries. Run must be called once.
func (q *Queue[K]) Run(ctx context.Context, workers int, process func(context.Context, K) error, failed func(K, error)) {
	var all sync.WaitGroup
	q.start(workers, func() {
		all.Go(func() {
			for q.next(ctx, process, failed) {
			}
		})
	})
	<-ctx.Done()
	q.end()
	all.Wait()
}

func (q *Queue[K]) start(workers int, work func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.work, q.idle = work, workers
	for k := range q.delayed {
		q.arm(k)
	}
	for range q.ready {
		q.startWorker()
	}
}

func (q *Queue[K]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.work = nil
	for _, d := range q.delayed {
		d.stop()
	}
}

// next processes one key. It returns false if there is none, or ctx has ended.
func (q *Queue[K]) next(ctx context.Context, process func(context.Context, K) error, failed func(K, error)) bool {
	k, ok := q.take(ctx)
	if !ok {
		return false
	}
	err := process(ctx, k)
	if ctx.Err() != nil {
		err = nil
	}
	if err != nil {
		failed(k, err)
	}
	q.done(k, err)
	return true
}

// take returns the next key. If there is none, its goroutine ends.
func (q *Queue[K]) take(ctx context.Context) (k K, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 || ctx.Err() != nil {
		q.idle++
		return k, false
	}
	k, q.ready = q.ready[0], q.ready[1:]
	if len(q.ready) == 0 {
		q.ready = nil // the array would only grow
	}
	delete(q.queued, k)
	q.processing[k] = false
	return k, true
}

// done ends the processing of a key. A failed key is enqueued after its back-off, and a key that was added meanwhile at
// once.
func (q *Queue[K]) done(k K, err error) {
	q.mu.Lock()
	again := q.processing[k]
	delete(q.processing, k)
	if err == nil {
		delete(q.failures, k)
	}
	if again {
		q.add(k)
	}
	pause := q.last
	if err != nil {
		if n := q.failures[k]; q.first<<n < q.last && q.first<<n > 0 {
			pause = q.first << n
			q.failures[k]++
		}
	}
	q.mu.Unlock()
	if err != nil {
		q.AddAfter(k, pause)
	}
}
