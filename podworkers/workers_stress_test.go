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

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// A thousand pods get random updates from eight goroutines, and from housekeeping, while their work and inspections
// fail, hang and ignore their cancellation. The Syncer checks that no pod has two calls at a time. Every stop request
// is answered, and in the end every pod reaches its desired state without further updates.
func TestStress(t *testing.T) {
	inBubble(t, Config{MaxConcurrent: 50, ResyncInterval: time.Hour}, func(b *bubble) {
		s := newStress(b, 1000)
		s.disturb(8)
		s.healthy.Store(true)
		b.pass(10 * time.Minute)
		b.SyncKnownPods(s.wanted)
		b.pass(10 * time.Minute)
		b.SyncKnownPods(s.wanted)
		s.settled()
		if err := b.Drain(b.t.Context(), StopRequest{}); err != nil {
			t.Error(err)
		}
		b.SyncKnownPods(nil)
		b.empty()
	})
}

// stress is a faulty node whose pods get random updates.
type stress struct {
	*bubble
	// pods are all pods. At the end those with an even number must run, and the others must be forgotten. Every tenth
	// pair are static pods with one name.
	pods []*v1.Pod
	// wanted are the pods that must run at the end.
	wanted  []types.UID
	healthy atomic.Bool
}

func newStress(b *bubble, pods int) *stress {
	s := &stress{bubble: b}
	for i := range pods {
		p := pod(types.UID(fmt.Sprint(i)))
		if i/2%10 == 0 {
			p = static(p.UID)
			p.Name = fmt.Sprint("static", i/2)
		}
		s.pods = append(s.pods, p)
		if i%2 == 0 {
			s.wanted = append(s.wanted, p.UID)
		}
	}
	b.do = func(ctx context.Context, _ Work) (Result, error) { return Result{}, s.fault(ctx) }
	b.fresh = func(ctx context.Context, _ types.UID, _ time.Time) (*runtime.PodStatus, error) {
		return &runtime.PodStatus{}, s.fault(ctx)
	}
	return s
}

// fault returns the result of work or an inspection on a faulty node.
func (s *stress) fault(ctx context.Context) error {
	if s.healthy.Load() {
		return nil
	}
	switch rand.IntN(20) {
	case 0:
		time.Sleep(5 * time.Second) // deaf to its cancellation
	case 1:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Second):
			return context.DeadlineExceeded
		}
	case 2:
		return errBroken
	case 3:
		return errors.Join(errBroken, retryAt{errBroken, time.Now().Add(3 * time.Second)})
	case 4:
		return temporary{errBroken}
	}
	return nil
}

// disturb sends random updates of the pods from several goroutines, and at the end requests the stop of the undesired
// ones.
func (s *stress) disturb(sides int) {
	var wg sync.WaitGroup
	for side := range sides {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(side), 7))
			for round := range 10 {
				for i := side; i < len(s.pods); i += sides {
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					s.news(r, i, round, &wg)
				}
				s.SyncKnownPods(s.wanted)
			}
			for i := side; i < len(s.pods); i += sides {
				if i%2 == 1 {
					s.give(kill(s.pods[i], 0, nil))
				}
			}
		})
	}
	wg.Wait()
}

// news sends one random update of one pod.
func (s *stress) news(r *rand.Rand, i, round int, wg *sync.WaitGroup) {
	p := s.pods[i]
	inRuntime := RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
	what := r.IntN(8)
	switch {
	case round == 0:
		s.give(create(p))
	case what == 0:
		if err := s.KillRuntimePod(inRuntime); err != nil {
			s.t.Errorf("%s: %v", p.UID, err)
		}
	case i%2 == 0 || what < 5:
		s.give(Update{Type: UpdateType(r.IntN(3)), Pod: p})
	case what == 5:
		s.give(killWithin(p, r.Int64N(60)))
	case what == 6:
		s.give(Update{Type: Kill, RuntimePod: &inRuntime})
	default:
		wg.Go(func() {
			if err := s.KillPod(s.t.Context(), Update{Pod: p}); err != nil {
				s.t.Errorf("%s: %v", p.UID, err)
			}
		})
	}
}

func (s *stress) give(u Update) {
	if err := s.UpdatePod(u); err != nil {
		s.t.Errorf("%+v: %v", u, err)
	}
}

// settled checks that the desired pods run, and that no other pod is left.
func (s *stress) settled() {
	s.t.Helper()
	for _, uid := range s.wanted {
		calls := s.calls(uid)
		if s.State(uid).TerminationRequested || len(calls) == 0 || calls[len(calls)-1].Type != SyncPod {
			s.t.Errorf("%s is to run, calls %v", uid, s.scripted.types(uid))
		}
	}
	if n := len(s.scheduler.pods); n != len(s.wanted) {
		s.t.Errorf("%d pods left, want %d", n, len(s.wanted))
	}
}

// Calls from many goroutines at once, in real time.
func TestConcurrentUse(t *testing.T) {
	s := &scripted{t: t, busy: map[types.UID]inFlight{}}
	w, err := New(Config{Syncer: s, Status: s, Observer: s, abandonAfter: time.Hour})
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
				w.State(p.UID)
				_ = w.KillPod(ctx, Update{Pod: p})
				w.SyncKnownPods(nil)
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
