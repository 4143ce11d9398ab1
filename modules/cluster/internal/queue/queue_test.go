package queue_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/modules/cluster/internal/queue"
)

// A key that is added before Run is processed when it is due, and a key that fails is retried until it succeeds.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New[string](time.Second, 4*time.Second)
		q.Add("early")
		q.AddAfter("later", time.Minute)
		q.AddAfter("later", time.Hour)
		began := time.Now()
		var mu sync.Mutex
		seen, failures := map[string][]time.Duration{}, 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			q.Run(ctx, 2, func(_ context.Context, k string) error {
				mu.Lock()
				defer mu.Unlock()
				seen[k] = append(seen[k], time.Since(began).Round(time.Second))
				if k == "bad" && len(seen[k]) < 4 {
					return errors.New("not yet")
				}
				return nil
			}, func(string, error) {
				mu.Lock()
				defer mu.Unlock()
				failures++
			})
		}()
		q.Add("bad")
		time.Sleep(2 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		for k, want := range map[string][]time.Duration{
			"early": {0}, "later": {time.Minute}, "bad": {0, time.Second, 3 * time.Second, 7 * time.Second},
		} {
			if !slices.Equal(seen[k], want) {
				t.Errorf("%s was looked at after %v, want %v", k, seen[k], want)
			}
		}
		if failures != 3 {
			t.Errorf("%d failures reported, want 3", failures)
		}
		cancel()
		<-ended
		q.Add("late") // has no effect after the end
	})
}

// Without Run, a Queue starts no goroutine: the bubble would detect one.
func TestQueueThatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { queue.New[string](time.Second, time.Second).Add("k") })
}

// At most as many keys as workers are processed at a time, and a key that is added while it is processed is processed again
// afterwards.
func TestQueueWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New[int](time.Second, time.Second)
		began := time.Now()
		var mu sync.Mutex
		running, most, ends := 0, 0, map[int][]time.Duration{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			q.Run(ctx, 2, func(_ context.Context, k int) error {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				running--
				ends[k] = append(ends[k], time.Since(began))
				return nil
			}, func(int, error) {})
		}()
		for k := range 5 {
			q.Add(k)
			q.Add(k) // a queued key is not queued twice
		}
		time.Sleep(time.Second / 2)
		q.Add(0)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := map[int][]time.Duration{
			0: {time.Second, 3 * time.Second}, 1: {time.Second}, 2: {2 * time.Second}, 3: {2 * time.Second}, 4: {3 * time.Second},
		}
		if !reflect.DeepEqual(ends, want) || most != 2 {
			t.Errorf("keys ended at %v, %d at a time, want %v and %d", ends, most, want, 2)
		}
		cancel()
		<-ended
	})
}
