package podworkers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// W1: an update after a kill starts no sync, in either order, and the calls for a pod only move forward.
func TestW1_NothingStartsAfterAKill(t *testing.T) {
	later := func(p *v1.Pod) []Update { return []Update{kill(p, 0, nil), {Type: Sync, Pod: p}} }
	for name, order := range map[string]func(*v1.Pod) []Update{
		"kill, then sync": later,
		"sync, then kill": func(p *v1.Pod) []Update { u := later(p); return []Update{u[1], u[0]} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				release := make(chan struct{})
				b.do = func(_ context.Context, w Work) (Result, error) {
					if w.Type == SyncPod {
						<-release // done before anyone notices that it is cancelled
					}
					return Result{}, nil
				}
				b.update(create(pod("a")))
				for _, u := range order(pod("a")) {
					b.update(u)
				}
				close(release)
				synctest.Wait()
				b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
				b.finished("a")
				b.SyncKnownPods(nil)
				synctest.Wait()
				if want := []string{
					"a syncing-terminating", "a terminating-terminated", "a terminated-finished", "a finished-orphaned", "a orphaned-removing", "a removing-forgotten",
				}; !slices.Equal(b.moves, want) {
					t.Errorf("moves %v, want %v", b.moves, want)
				}
			})
		})
	}
}

// W2: a stop request cancels a running sync immediately.
func TestW2_KillCancelsARunningSync(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var cause error
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.Type != SyncPod {
				return Result{}, nil
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return Result{}, ctx.Err()
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		if b.now() != 0 || !errors.Is(cause, ErrInterrupted) {
			t.Errorf("at %v, cause %v; want no time to pass, and ErrInterrupted", b.now(), cause)
		}
	})
}

// W2: a sync that ignores its cancellation delays a stop no longer than Config.abandonAfter. Its late outcome is
// dropped, and containers that it may have started meanwhile are stopped.
func TestW2_DeafSyncIsAbandoned(t *testing.T) {
	inBubble(t, Config{abandonAfter: 700 * time.Millisecond}, func(b *bubble) {
		release := make(chan struct{})
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				<-release
				return Result{Terminal: true}, nil
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.pass(699 * time.Millisecond)
		b.wants("a", SyncPod)
		b.pass(time.Millisecond)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		b.finished("a")
		close(release)
		synctest.Wait()
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncTerminatingRuntimePod)
		b.finished("a")
		b.SyncKnownPods(nil)
		b.empty()
	})
}

// Late work may have started a container after the inspection of the stop in progress, or after the pod became an
// orphan. The pod is not removed before that container is stopped.
func TestW2_LateReturnIsReconciled(t *testing.T) {
	for name, c := range map[string]struct {
		orphan bool
		want   []WorkType
	}{
		"while it stops":      {false, []WorkType{SyncPod, SyncTerminatingPod, SyncTerminatingPod, SyncTerminatedPod, RemovePod}},
		"when it is orphaned": {true, []WorkType{SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncTerminatingRuntimePod, RemovePod}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				sync, stop := make(chan struct{}), make(chan struct{})
				b.do = func(_ context.Context, w Work) (Result, error) {
					switch w.Type {
					case SyncPod:
						<-sync
					case SyncTerminatingPod:
						<-stop
					}
					return Result{}, nil
				}
				b.update(create(pod("a")))
				b.update(kill(pod("a"), 0, nil))
				b.pass(defaultAbandonAfter)
				if c.orphan {
					close(stop)
					synctest.Wait()
					b.SyncKnownPods(nil)
				}
				close(sync)
				synctest.Wait()
				if !c.orphan {
					close(stop)
					synctest.Wait()
				}
				b.SyncKnownPods(nil)
				b.empty()
				b.wants("a", c.want...)
			})
		})
	}
}

// W3: a shorter grace period takes effect immediately on a stop in progress, even if that stop ignores its
// cancellation.
func TestW3_ShorterGraceActsAtOnce(t *testing.T) {
	for name, deaf := range map[string]bool{"heeds its cancellation": false, "does not": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				b.do = func(ctx context.Context, w Work) (Result, error) {
					if w.Type != SyncTerminatingPod {
						return Result{}, nil
					}
					done := ctx.Done()
					if deaf {
						done = nil
					}
					select {
					case <-done:
						return Result{}, ctx.Err()
					case <-time.After(time.Until(w.Deadline)):
						return Result{}, nil
					}
				}
				b.update(create(pod("a")))
				b.update(killWithin(pod("a"), 120))
				b.pass(5 * time.Second)
				b.update(killWithin(pod("a"), 10))
				b.update(killWithin(pod("a"), 60))
				b.pass(10*time.Second - time.Millisecond)
				b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatingPod)
				b.pass(time.Millisecond)
				b.finished("a")
				again := b.calls("a")[2]
				if want := b.start.Add(15 * time.Second); !again.Deadline.Equal(want) || *again.GracePeriodSeconds != 10 {
					t.Errorf("stopped again with %d s until %v, want 10 s until %v", *again.GracePeriodSeconds, again.Deadline, want)
				}
				bound := time.Duration(0)
				if deaf {
					bound = defaultAbandonAfter
				}
				if at := again.at.Sub(b.start); at != 5*time.Second+bound {
					t.Errorf("stopped again at %v, want %v after the request", at, bound)
				}
				b.pass(2 * time.Minute)
				b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatingPod, SyncTerminatedPod)
			})
		})
	}
}

// The inspection for containers that late work may have started begins after that work has returned, even if the pod
// has become an orphan meanwhile.
func TestW2_LateReturnIsInspectedAfterwards(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		const late = 7 * time.Second
		var since []time.Duration
		b.fresh = func(_ context.Context, _ types.UID, at time.Time) (*runtime.PodStatus, error) {
			since = append(since, at.Sub(b.start))
			return &runtime.PodStatus{}, nil
		}
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				time.Sleep(late)
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.pass(2 * defaultAbandonAfter)
		b.SyncKnownPods(nil)
		b.pass(late)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncTerminatingRuntimePod, RemovePod)
		if got := since[3]; got != late {
			t.Errorf("looked since %v, want %v", got, late)
		}
	})
}

// If a finished pod, or a pod that only the runtime has, has a running container, it is stopped with a status that was read
// afterwards: an older status may lack the container.
func TestW6_StrayIsInspectedAfterItWasSeen(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		since := map[types.UID]time.Time{}
		b.fresh = func(_ context.Context, uid types.UID, at time.Time) (*runtime.PodStatus, error) {
			since[uid] = at
			return &runtime.PodStatus{}, nil
		}
		b.do = func(context.Context, Work) (Result, error) { return Result{}, nil }
		b.update(create(pod("ended")))
		b.update(kill(pod("ended"), 0, nil))
		b.pass(time.Minute)
		seen := time.Now()
		if err := b.KillRuntimePod(RuntimePod{UID: "ended"}); err != nil {
			t.Fatal(err)
		}
		b.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "orphan"}})
		b.pass(time.Second)
		for _, uid := range []types.UID{"ended", "orphan"} {
			if since[uid].Before(seen) {
				t.Errorf("%s: a status since %v will do, want since %v", uid, since[uid], seen)
			}
		}
	})
}

// Repeated requests for a shorter grace period do not postpone the time at which a stop that ignores its cancellation
// is abandoned.
func TestW3_AskingAgainPutsNothingOff(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod {
				time.Sleep(time.Hour)
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(killWithin(pod("a"), 120))
		for i := range int64(4) {
			b.update(killWithin(pod("a"), 60-i))
			b.pass(defaultAbandonAfter / 3)
		}
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatingPod)
		b.pass(2 * time.Hour)
	})
}
