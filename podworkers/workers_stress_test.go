package podworkers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A thousand pods get random news from eight sides while their work fails, hangs
// and is deaf to its cancellation. No pod may have two calls at a time, which the
// Syncer checks; every request to stop is answered; and in the end every pod is
// where it should be, without further news.
func TestStress(t *testing.T) {
	const sides, each = 8, 125
	inBubble(t, Config{MaxConcurrent: 50, ResyncInterval: time.Hour}, func(b *bubble) {
		var healthy atomic.Bool
		b.do = func(ctx context.Context, _ Work) (Result, error) {
			if healthy.Load() {
				return Result{}, nil
			}
			return faulty(ctx)
		}
		var wg sync.WaitGroup
		keep := make([][]types.UID, sides)
		for side := range sides {
			wg.Go(func() { keep[side] = b.disturb(side, each) })
		}
		wg.Wait()
		var desired []types.UID
		for _, uids := range keep {
			desired = append(desired, uids...)
		}
		healthy.Store(true)
		b.pass(10 * time.Minute)
		b.Known(desired)
		b.pass(10 * time.Minute)
		b.Known(desired)
		for _, uid := range desired {
			calls := b.calls(uid)
			if b.TerminationRequested(uid) || len(calls) == 0 || calls[len(calls)-1].Type != SyncPod {
				t.Errorf("%s is to run, calls %v", uid, b.scripted.types(uid))
			}
		}
		if n := len(b.Workers.pods); n != len(desired) {
			t.Errorf("%d pods left, want %d", n, len(desired))
		}
		if err := b.Drain(b.t.Context(), StopRequest{}); err != nil {
			t.Error(err)
		}
		b.Known(nil)
		b.empty()
	})
}

// disturb gives random news of some pods, and returns those that are to run in
// the end.
func (b *bubble) disturb(side, pods int) (keep []types.UID) {
	r := rand.New(rand.NewPCG(uint64(side), 7))
	var wg sync.WaitGroup
	for round := range 10 {
		for i := range pods {
			p := pod(types.UID(fmt.Sprintf("%d-%d", side, i)))
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			switch {
			case round == 0:
				b.give(Update{Type: Create, Pod: p})
			case i%2 == 0 || r.IntN(3) > 0:
				b.give(Update{Type: UpdateType(r.IntN(2)), Pod: p})
			case r.IntN(2) == 0:
				b.give(killWithin(p, r.Int64N(60)))
			default:
				wg.Go(func() {
					if err := b.KillPod(b.t.Context(), Update{Pod: p}); err != nil {
						b.t.Errorf("%s: %v", p.UID, err)
					}
				})
			}
			if round == 0 && i%2 == 0 {
				keep = append(keep, p.UID)
			}
		}
	}
	for i := range pods {
		if i%2 == 1 {
			b.give(kill(pod(types.UID(fmt.Sprintf("%d-%d", side, i))), 0, nil))
		}
	}
	wg.Wait()
	return keep
}

func (b *bubble) give(u Update) {
	if err := b.UpdatePod(u); err != nil {
		b.t.Errorf("%s: %v", u.Pod.UID, err)
	}
}

// faulty is a Syncer's work on a node that is not well.
func faulty(ctx context.Context) (Result, error) {
	switch rand.IntN(12) {
	case 0:
		time.Sleep(5 * time.Second) // deaf to its cancellation
	case 1:
		select {
		case <-ctx.Done():
			return Result{}, ctx.Err()
		case <-time.After(20 * time.Second):
			return Result{}, context.DeadlineExceeded
		}
	case 2:
		return Result{}, errBroken
	case 3:
		return Result{}, errors.Join(errBroken, retryAt{errBroken, time.Now().Add(3 * time.Second)})
	case 4:
		return Result{}, temporary{errBroken}
	}
	return Result{}, nil
}

// Calls from many goroutines at once, in real time.
func TestConcurrentUse(t *testing.T) {
	s := &scripted{t: t, busy: map[types.UID]inFlight{}}
	w, err := New(Config{Syncer: s, Status: s, Observer: s, AbandonAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- w.Run(ctx) }()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			p := pod(types.UID(fmt.Sprint(i % 10)))
			for range 20 {
				_ = w.UpdatePod(create(p))
				w.MayHaveRunningContainers(p.UID)
				_ = w.KillPod(ctx, Update{Pod: p})
				w.Known(nil)
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
