package pace_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/internal/base/pace"
)

// waiter is who waits in the model: a list in which each is put, when it comes, before the
// first that it overtakes.
type waiter struct {
	id       int
	priority pace.Priority
	came     time.Time
}

func join(list []waiter, w waiter) []waiter {
	at := slices.IndexFunc(list, func(other waiter) bool {
		return other.priority < w.priority && w.came.Sub(other.came) < 10*time.Second
	})
	if at < 0 {
		at = len(list)
	}
	return slices.Insert(list, at, w)
}

// Whoever comes and gives up when, of two priorities: turns come in the order of the list.
func TestOrderIsThatOfAList(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) { tryOrder(t, rand.New(rand.NewPCG(seed, 1))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func tryOrder(t *testing.T, random *rand.Rand) {
	p := pace.New(1, never)
	var mu sync.Mutex
	var list []waiter
	giveUp := map[int]context.CancelFunc{}
	work := func(ctx context.Context, w waiter) {
		release, err := p.Take(ctx, w.priority)
		if err != nil {
			return
		}
		mu.Lock()
		if list[0].id != w.id {
			t.Errorf("turn of %+v, want that of %+v", w, list[0])
		}
		list = slices.DeleteFunc(list, func(other waiter) bool { return other.id == w.id })
		mu.Unlock()
		time.Sleep(800 * time.Millisecond)
		release()
	}
	var all sync.WaitGroup
	for id := range 150 {
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		mu.Lock()
		if len(list) > 0 && random.IntN(4) == 0 {
			at := random.IntN(len(list))
			giveUp[list[at].id]()
			list = slices.Delete(list, at, at+1)
		}
		w := waiter{id, pace.Priority(random.IntN(2)), time.Now()}
		list = join(list, w)
		mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		giveUp[id] = cancel
		all.Go(func() { work(ctx, w) })
		synctest.Wait()
	}
	all.Wait()
}
