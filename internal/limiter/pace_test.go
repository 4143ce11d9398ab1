package limiter_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/internal/limiter"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func never() bool  { return false }
func always() bool { return true }

// run begins pieces of work at the same time; each takes the duration took. It returns when each started, in
// milliseconds.
func run(t *testing.T, p *limiter.Limiter, took time.Duration, priorities ...limiter.Priority) []int {
	t.Helper()
	start, began, done := time.Now(), make([]int, len(priorities)), make(chan struct{})
	for i, priority := range priorities {
		go func() {
			release, err := p.Take(t.Context(), priority)
			if err != nil {
				t.Error(err)
			}
			began[i] = int(time.Since(start).Milliseconds())
			time.Sleep(took)
			release()
			release()
			done <- struct{}{}
		}()
		synctest.Wait() // so that they arrive in order
	}
	for range priorities {
		<-done
	}
	return began
}

func TestTurns(t *testing.T) {
	same := make([]limiter.Priority, 8)
	for name, tc := range map[string]struct {
		limit      int
		spare      func() bool
		took       time.Duration
		priorities []limiter.Priority
		want       []int
	}{
		"no limit":                      {0, never, time.Second, same[:4], []int{0, 0, 0, 0}},
		"in the order they come":        {2, never, 10 * time.Millisecond, same, []int{0, 0, 0, 10, 10, 20, 20, 20}},
		"few, all at once":              {4, never, 10 * time.Millisecond, same[:7], []int{0, 0, 0, 0, 0, 0, 0}},
		"one at a time":                 {1, never, 10 * time.Millisecond, same[:3], []int{0, 10, 20}},
		"the higher priority first":     {1, never, 10 * time.Millisecond, []limiter.Priority{0, 0, 1, 0, 2, 1}, []int{0, 40, 20, 50, 10, 30}},
		"processors idle":               {1, always, time.Second, same, []int{0, 50, 100, 100, 150, 150, 150, 150}},
		"idle, with more than they use": {3, always, time.Second, same, []int{0, 0, 0, 0, 0, 50, 50, 50}},
		"work that hangs":               {2, never, time.Hour, same, []int{0, 0, 0, 1000, 1000, 2000, 2000, 2000}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := run(t, limiter.New(tc.limit, tc.spare), tc.took, tc.priorities...); !slices.Equal(got, tc.want) {
					t.Errorf("began after %v ms, want %v", got, tc.want)
				}
			})
		})
	}
}

// Work that was started because of idle processors counts: when these are busy again, no work starts until less than the
// limit is running.
func TestBusyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		spare := func() bool { asked++; return asked == 2 } // when the first work begins to wait
		if got, want := run(t, limiter.New(2, spare), 190*time.Millisecond, make([]limiter.Priority, 10)...), []int{0, 0, 0, 50, 50, 50, 240, 240, 430, 430}; !slices.Equal(got, want) {
			t.Errorf("began after %v ms, want %v", got, want)
		}
	})
}

func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limiter.New(1, never)
		first := must.Get(p.Take(t.Context(), 0))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := p.Take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		first()
		next, err := p.Take(t.Context(), 0) // no other work takes its turn
		must.Do(t, err)
		next()
	})
}

// However much work arrives with a higher priority, work that has waited for long is started.
func TestNoCallerStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := limiter.New(1, never), time.Now()
		take := func(priority limiter.Priority) func() {
			release := must.Get(p.Take(t.Context(), priority))(t)
			return release
		}
		running := take(1)
		waited := make(chan time.Duration, 1)
		go func() {
			defer take(0)()
			waited <- time.Since(start)
		}()
		synctest.Wait()
		for range 300 { // one is running, and another waits, all the time
			next := make(chan func())
			go func() { next <- take(1) }()
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			running()
			running = <-next
		}
		running()
		if got, want := <-waited, 10*time.Second; got < want || got > want+time.Second {
			t.Errorf("waited for %v, want %v and no turn more", got, want)
		}
	})
}

// Many pods arrive at the same time, and each is a sandbox and then a container: containers start all the time, however
// long the last sandbox has waited.
func TestNeitherWaitsForAllOfTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := limiter.New(3, never), time.Now()
		var began []time.Duration
		var mu sync.Mutex
		take := func(priority limiter.Priority) {
			release, err := p.Take(t.Context(), priority)
			if err != nil {
				t.Error(err)
				return
			}
			if priority > 0 {
				mu.Lock()
				began = append(began, time.Since(start))
				mu.Unlock()
			}
			time.Sleep(300 * time.Millisecond)
			release()
		}
		var pods sync.WaitGroup
		for range 250 {
			pods.Go(func() {
				take(0)
				take(1)
			})
		}
		pods.Wait()
		var longest, last time.Duration
		for _, at := range began {
			longest, last = max(longest, at-last), at
		}
		if longest > time.Second || len(began) != 250 {
			t.Errorf("%d began, and none for %v", len(began), longest)
		}
	})
}
