package queue_test

import (
	"context"
	"errors"
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
