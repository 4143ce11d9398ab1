package podworkers

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// W5: a pod that only the runtime has is stopped and forgotten.
func TestW5_RuntimePodIsStoppedAndForgotten(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(Update{Type: Kill, RuntimePod: &strayA})
		b.wants("a", SyncTerminatingRuntimePod, RemovePod)
		b.empty()
	})
}

// W6: running containers of a finished pod are stopped.
func TestW6_StrayIsStoppedInEveryPhase(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.SyncKnownPods([]types.UID{"a"})
		b.do = failures(SyncTerminatingRuntimePod, errBroken)
		if err := b.KillRuntimePod(strayA); err != nil {
			t.Fatal(err)
		}
		b.pass(5 * time.Second)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncTerminatingRuntimePod, SyncTerminatingRuntimePod)
		b.finished("a")
		if err := b.KillRuntimePod(RuntimePod{Name: "a"}); err == nil || !strings.Contains(err.Error(), "UID") {
			t.Errorf("error %v, want one that names the UID", err)
		}
	})
}

// W10: a pod with the UID of a terminating pod runs after that one has finished, not before.
func TestW10_UIDReuseRunsAgain(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod {
				time.Sleep(3 * time.Second)
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.update(create(pod("a")))
		b.SyncKnownPods([]types.UID{"a"})
		b.wants("a", SyncPod, SyncTerminatingPod)
		b.pass(3 * time.Second)
		b.finished("a")
		b.SyncKnownPods([]types.UID{"a"})
		b.update(create(pod("a")))
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod, RemovePod, SyncPod)
		if !b.State("a").MayHaveRunningContainers || !slices.Equal(b.seen, []types.UID{"a", "a"}) {
			t.Errorf("seen %v, want the new pod to be seen as one", b.seen)
		}
	})
}

// W7: a pod that had finished before the agent started is cleaned up, with retries until that succeeds, and never runs
// (kubernetes #105527, #117019).
func TestW7_OverBeforeTheAgentStartedIsOnlyCleanedUp(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = failures(SyncTerminatedPod, errBroken, errBroken)
		p := pod("a")
		p.Status.Phase = v1.PodSucceeded
		b.update(Update{Type: Create, Pod: p, Status: &runtime.PodStatus{}})
		if b.State("a").MayHaveRunningContainers {
			t.Error("it counts as running")
		}
		b.pass(time.Minute)
		b.wants("a", SyncTerminatedPod, SyncTerminatedPod, SyncTerminatedPod)
		b.finished("a")
	})
}

// W8: a pod whose first update is its deletion, and of which the runtime has no container, finishes (kubernetes #118472).
func TestW8_DeletedBeforeItStartedIsFinished(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		p := pod("a")
		p.DeletionTimestamp = &metav1.Time{Time: b.start}
		b.update(create(p))
		b.wants("a", SyncTerminatingPod, SyncTerminatedPod)
		b.finished("a")
		if b.now() != 0 {
			t.Errorf("it took %v, want no time", b.now())
		}
	})
}

// W10: a new pod with the UID of a removed pod starts after the cleanup of the removed one, in whichever phase that was, and
// within one housekeeping interval.
func TestW10_UIDReuseInEveryPhase(t *testing.T) {
	at := map[string]WorkType{"starting": SyncPod, "stopping": SyncTerminatingPod, "cleaned up after": SyncTerminatedPod}
	for name, phase := range at {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				const housekeeping = 2 * time.Second
				b.do = func(ctx context.Context, w Work) (Result, error) {
					if w.Type == phase && b.now() < housekeeping {
						time.Sleep(time.Until(b.start.Add(housekeeping)))
					}
					return Result{}, ctx.Err()
				}
				b.update(create(pod("a")))
				b.update(kill(pod("a"), 0, nil))
				next := pod("a")
				next.Generation = 2
				b.update(create(next))
				for range 4 {
					b.pass(housekeeping)
					b.SyncKnownPods([]types.UID{"a"})
					b.update(create(next))
				}
				calls := slices.DeleteFunc(b.calls("a"), func(c call) bool { return c.Type == SyncTerminatingRuntimePod }) // late work's
				cleaned := slices.IndexFunc(calls, func(c call) bool { return c.Type == RemovePod })
				if cleaned < 1 || calls[cleaned-1].Type != SyncTerminatedPod || len(calls) <= cleaned+1 || calls[cleaned+1].at.Sub(b.start) > 2*housekeeping {
					t.Fatalf("calls %v, want the new pod within %v", b.scripted.types("a"), 2*housekeeping)
				}
				for i, c := range calls {
					if begins := c.Type == SyncPod && c.Pod.Generation == 2; begins != (i > cleaned) {
						t.Fatalf("call %d of %v is %v of generation %d", i, b.scripted.types("a"), c.Type, c.Pod.Generation)
					}
				}
			})
		})
	}
}

// If a pod is created while containers of its UID, which only the runtime had, are being stopped, its life starts after
// that, with a status that is newer than the stop.
func TestNewsDuringTheStopOfARuntimePodBeginsALife(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var since []time.Duration
		b.fresh = func(_ context.Context, _ types.UID, at time.Time) (*runtime.PodStatus, error) {
			since = append(since, at.Sub(b.start))
			return &runtime.PodStatus{}, nil
		}
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingRuntimePod {
				time.Sleep(time.Second)
			}
			return Result{}, nil
		}
		b.update(Update{Type: Kill, RuntimePod: &strayA})
		b.update(Update{Type: Changed, Pod: pod("a")})
		b.pass(time.Second)
		b.wants("a", SyncTerminatingRuntimePod, RemovePod, SyncPod)
		if since[2] != time.Second {
			t.Errorf("status asked for since %v, want 1s", since[2])
		}
		if want := []string{
			"a seen", "a syncing-terminating", "a terminating-finished", "a finished-orphaned", "a orphaned-removing", "a removing-forgotten", "a seen",
		}; !slices.Equal(b.lives, want) {
			t.Errorf("observed %q, want %q", b.lives, want)
		}
	})
}

// An orphan whose sync ignores its cancellation is stopped nevertheless, within the grace period of its spec, which
// does not start again with each attempt.
func TestOrphanWithADeafSync(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var deadlines []time.Duration
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				time.Sleep(time.Minute)
			}
			if w.Type == SyncTerminatingPod && b.now() < 30*time.Second {
				deadlines = append(deadlines, w.Deadline.Sub(b.start))
				return Result{}, errBroken
			}
			return Result{}, nil
		}
		p := pod("a")
		p.Spec.TerminationGracePeriodSeconds = ptr(int64(20))
		b.update(create(p))
		if known, _ := b.SyncKnownPods(nil); !reflect.DeepEqual(known, []KnownPod{{UID: "a", Phase: Terminating, Orphan: true, HasPod: true}}) {
			t.Errorf("known %+v, want it without what was seen to", known)
		}
		b.pass(45 * time.Second)
		if want := defaultAbandonAfter + 20*time.Second; len(deadlines) < 3 || slices.Min(deadlines) != want || slices.Max(deadlines) != want {
			t.Errorf("deadlines %v, want several tries, all until %v", deadlines, want)
		}
		b.finished("a")
		b.pass(time.Minute)
		b.SyncKnownPods(nil)
		b.empty()
	})
}
