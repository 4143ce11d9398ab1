package image

import (
	"context"
	"sync"
	"time"
)

// flights are the running pulls. Requests for the same image share a pull, which runs as long as
// one waits for it.
type flights struct {
	mu     sync.Mutex
	flying map[flightKey]*flight
	// running counts the goroutines, also for abandoned flights; idle is closed
	// when it becomes 0, and nil before the first.
	running int
	idle    chan struct{}
}

// flightKey identifies requests that share a pull.
type flightKey struct {
	image, runtimeHandler string
	credential            fingerprint
}

type flight struct {
	waiters int // guarded by flights.mu
	cancel  context.CancelFunc
	done    chan struct{} // closed when ran and err are set
	ran     time.Duration
	err     error
}

// join waits for the flight with that key, and starts it if there is none. do receives a context
// that ends when no request waits any more. join returns ctx's error as soon as ctx ends, and
// otherwise do's results: the time it ran without waiting, and its error.
func (f *flights) join(ctx context.Context, key flightKey, do func(context.Context) (time.Duration, error)) (time.Duration, error) {
	fl := f.board(ctx, key, do)
	select {
	case <-fl.done:
		return fl.ran, fl.err
	case <-ctx.Done():
		f.leave(key, fl)
		return 0, ctx.Err()
	}
}

func (f *flights) board(ctx context.Context, key flightKey, do func(context.Context) (time.Duration, error)) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.flying[key]; fl != nil {
		fl.waiters++
		return fl
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fl := &flight{waiters: 1, cancel: cancel, done: make(chan struct{})}
	if f.flying == nil {
		f.flying = map[flightKey]*flight{}
	}
	f.flying[key] = fl
	if f.running++; f.running == 1 {
		f.idle = make(chan struct{})
	}
	go func() {
		fl.ran, fl.err = do(ctx)
		cancel()
		f.land(key, fl)
	}()
	return fl
}

// wait returns when no flight is running.
func (f *flights) wait() {
	f.mu.Lock()
	idle := f.idle
	f.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// leave cancels the flight if no request waits for it any more. A later request starts another
// flight.
func (f *flights) leave(key flightKey, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiters--; fl.waiters == 0 {
		fl.cancel()
		f.forget(key, fl)
	}
}

func (f *flights) land(key flightKey, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(key, fl)
	close(fl.done)
	if f.running--; f.running == 0 {
		close(f.idle)
	}
}

func (f *flights) forget(key flightKey, fl *flight) {
	if f.flying[key] == fl {
		delete(f.flying, key)
	}
}
