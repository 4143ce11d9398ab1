package limiter_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/internal/limiter"
)

// waiter is a waiting piece of work in the model.
type waiter struct {
	id       int
	priority limiter.Priority
	came     time.Time
}

// model has all waiters in the order of their arrival, and whether the last turn went to a waiter of the lower priority
// that had waited for long.
type model struct {
	list    []waiter
	gaveWay bool
}

// take removes the waiter that has the next turn.
func (m *model) take() waiter {
	high := slices.IndexFunc(m.list, func(w waiter) bool { return w.priority == 1 })
	low := slices.IndexFunc(m.list, func(w waiter) bool { return w.priority == 0 })
	m.gaveWay = !m.gaveWay && high >= 0 && low >= 0 && time.Since(m.list[low].came) >= 10*time.Second
	at := high
	if m.gaveWay || high < 0 {
		at = low
	}
	w := m.list[at]
	m.list = slices.Delete(m.list, at, at+1)
	return w
}

// Whenever waiters of two priorities arrive and give up, turns are in the order of the model.
func TestOrderMatchesTheModel(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) { tryOrder(t, rand.New(rand.NewPCG(seed, 1))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func tryOrder(t *testing.T, random *rand.Rand) {
	p := limiter.New(1, never)
	var mu sync.Mutex
	var all model
	giveUp := map[int]context.CancelFunc{}
	work := func(ctx context.Context, w waiter) {
		release, err := p.Take(ctx, w.priority)
		if err != nil {
			return
		}
		mu.Lock()
		if want := all.take(); want.id != w.id {
			t.Errorf("turn of %+v, want that of %+v", w, want)
		}
		mu.Unlock()
		time.Sleep(800 * time.Millisecond)
		release()
	}
	var working sync.WaitGroup
	for id := range 150 {
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		mu.Lock()
		if len(all.list) > 0 && random.IntN(4) == 0 {
			at := random.IntN(len(all.list))
			giveUp[all.list[at].id]()
			all.list = slices.Delete(all.list, at, at+1)
		}
		w := waiter{id, limiter.Priority(random.IntN(2)), time.Now()}
		all.list = append(all.list, w)
		mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		giveUp[id] = cancel
		working.Go(func() { work(ctx, w) })
		synctest.Wait()
	}
	working.Wait()
}
