package podworkers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// orphaned returns a harness whose pod a has stopped and must be removed.
func orphaned(t *testing.T) *harness {
	h := stoppedPod(t, Finished)
	h.set.SyncKnownPods(nil)
	return h
}

// W11: a pod is forgotten only when its removal has succeeded. Until then no container of it starts, whatever its
// sources deliver, and it is not reported as an orphan twice.
func TestW11_ForgottenWhenRemoved(t *testing.T) {
	h := orphaned(t)
	w := h.next("a", RemovePod)
	if s := h.set.State("a"); w.Removal != Unwanted || w.Pod == nil || s.Phase != Removing || !s.Terminated || !s.RuntimeShouldBeRemoved || !s.ContainersShouldBeTerminating {
		t.Fatalf("work %+v in state %+v", w, s)
	}
	if known, orphaned := h.set.SyncKnownPods(nil); len(known)+len(orphaned) != 0 {
		t.Errorf("known %+v and orphaned %+v while it is removed", known, orphaned)
	}
	if e := h.set.Done(w, Failed); !e.Retry || e.Work {
		t.Errorf("after a failure: %+v, want a retry", e)
	}
	h.idle("a")
	if e := h.set.Requeue("a"); !e.Work {
		t.Errorf("trying again: %+v, want work", e)
	}
	if e := h.do("a", RemovePod); e.Work || e.Retry || h.set.State("a").Known {
		t.Errorf("removed: %+v, %+v", e, h.set.State("a"))
	}
}

// W6: if a container of a pod still runs during the pod's removal, it is stopped, and the removal is repeated, even if it has
// succeeded meanwhile.
func TestW6_OrphanThatRunsIsStopped(t *testing.T) {
	for _, o := range []Outcome{Succeeded, Failed} {
		h := orphaned(t)
		w := h.next("a", RemovePod)
		h.set.KillRuntimePod(now, strayA)
		if e := h.set.Done(w, o); !e.Work || e.Retry || h.set.State("a").Terminated {
			t.Errorf("the removal has ended: %+v, want work, and the pod not taken to be stopped", e)
		}
		if e := h.do("a", SyncTerminatingRuntimePod); !e.Work {
			t.Errorf("stopped: %+v, want the removal", e)
		}
		if h.do("a", RemovePod); h.set.State("a").Known {
			t.Error("not forgotten")
		}
	}
}

// W10: a new pod with the UID starts when the old one is forgotten, with its last update, unless it must stop or is no
// longer desired.
func TestW10_SuccessorWaitsForTheRemoval(t *testing.T) {
	for name, c := range map[string]struct {
		news func(h *harness)
		runs bool
	}{
		"it comes": {func(*harness) {}, true},
		"it changes": {func(h *harness) {
			changed := pod("a")
			changed.Labels = map[string]string{"is": "changed"}
			h.update(Update{Type: Changed, Pod: changed})
			h.set.SyncKnownPods([]types.UID{"a"})
		}, true},
		"it is killed":     {func(h *harness) { h.update(kill(pod("a"), 0, nil)) }, false},
		"it is not wanted": {func(h *harness) { h.set.SyncKnownPods(nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := orphaned(t)
			h.update(Update{Type: Changed, Pod: pod("a")}) // is of the old one
			w := h.next("a", RemovePod)
			if e := h.update(Update{Type: Create, Pod: pod("a")}); e.Work || e.Interrupt {
				t.Errorf("it comes: %+v, want nothing", e)
			}
			c.news(h)
			if e := h.set.Done(w, Succeeded); e.Work != c.runs || h.set.State("a").Known != c.runs {
				t.Errorf("after the removal: %+v, want work: %t", e, c.runs)
			}
			if !c.runs {
				return
			}
			if w := h.next("a", SyncPod); (w.Pod.Labels["is"] == "changed") != (name == "it changes") {
				t.Errorf("it begins as %v, want the last news of it", w.Pod.Labels)
			}
		})
	}
}

// The remains of a pod of an earlier agent are removed, unless the pod is known.
func TestRemoveOrphan(t *testing.T) {
	h := newHarness(t)
	if e := h.set.RemoveOrphan(strayA); !e.Work || !h.set.State("a").Terminated {
		t.Fatalf("effects %+v, want work", e)
	}
	if e := h.set.RemoveOrphan(strayA); e.Work {
		t.Errorf("once more: %+v, want nothing", e)
	}
	w := h.next("a", RemovePod)
	if w.Pod != nil || *w.RuntimePod != strayA || w.Removal != Unknown {
		t.Errorf("work %+v, want the runtime's pod", w)
	}
	h.set.Done(w, Succeeded)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	if e := h.set.RemoveOrphan(strayA); e.Work || h.set.State("a").TerminationRequested {
		t.Error("a pod that runs is removed")
	}
	if e := h.set.RemoveOrphan(RuntimePod{}); e.Work || len(h.set.pods) != 1 {
		t.Errorf("no UID: %+v, want nothing", e)
	}
}

// The pauses between the attempts to remove a pod grow to a minute, and other pods do not wait. The status is read
// after the last observation of the pod, and after each attempt.
func TestG5_RemovalIsRetried(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.UID == "a" && b.now() < 5*time.Minute {
				return Result{}, errBroken
			}
			return Result{}, nil
		}
		var since []time.Duration
		b.fresh = func(_ context.Context, uid types.UID, at time.Time) (*runtime.PodStatus, error) {
			if uid == "a" {
				since = append(since, at.Sub(b.start))
			}
			return &runtime.PodStatus{}, nil
		}
		b.RemoveOrphan(strayA)
		b.RemoveOrphan(RuntimePod{UID: "b"})
		synctest.Wait()
		b.wants("b", RemovePod)
		b.pass(10 * time.Minute)
		b.empty()
		want := []time.Duration{0, 2, 6, 14, 30, 62, 122, 182, 242, 302}
		for i, c := range b.calls("a") {
			if at := c.at.Sub(b.start); i >= len(want) || at != want[i]*time.Second {
				t.Errorf("try %d after %v, want %v s", i, at, want)
			}
		}
		if len(since) != len(want) || since[0] != 0 || since[1] != 0 || since[9] != 242*time.Second {
			t.Errorf("looked since %v", since)
		}
	})
}

// The text of a PodState has the phase of the pod, and what its removal waits for.
func TestPodStateString(t *testing.T) {
	h := newHarness(t)
	want := func(want string) {
		t.Helper()
		if got := h.set.State("a").String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	want("not known")
	h.update(Update{Type: Create, Pod: pod("a")})
	late := h.next("a", SyncPod)
	want("syncing")
	h.update(kill(pod("a"), 0, nil))
	h.set.Abandon(late)
	h.do("a", SyncTerminatingPod)
	h.do("a", SyncTerminatedPod)
	h.set.SyncKnownPods(nil)
	want("orphaned: no source wants the pod; 1 abandoned calls have not returned")
	h.set.Done(late, Succeeded)
	h.next("a", RemovePod)
	want("removing: no source wants the pod")
	h.set.KillRuntimePod(now, strayA)
	want("removing: no source wants the pod; containers that were found running are being stopped")
}
