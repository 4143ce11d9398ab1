package podworkers

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// W7: a pod that finished under an earlier agent is only cleaned up.
func TestW7_OverBeforeTheAgentStarted(t *testing.T) {
	over := pod("a")
	over.Status.Phase = v1.PodSucceeded
	for name, c := range map[string]struct {
		status *runtime.PodStatus
		want   WorkType
	}{
		"nothing in the runtime": {&runtime.PodStatus{}, SyncTerminatedPod},
		"an exited container":    {&runtime.PodStatus{Containers: []runtime.ContainerStatus{{State: runtime.ContainerExited}}}, SyncTerminatedPod},
		"a running container":    {&runtime.PodStatus{Containers: []runtime.ContainerStatus{{State: runtime.ContainerRunning}}}, SyncTerminatingPod},
		"a ready sandbox":        {&runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{{State: runtime.SandboxReady}}}, SyncTerminatingPod},
		"not known":              {nil, SyncTerminatingPod},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.update(Update{Type: Create, Pod: over, Status: c.status})
			if h.set.State("a").ContainersShouldBeTerminating != (c.want == SyncTerminatedPod) {
				t.Error("whether something of it may be started is wrong")
			}
			h.next("a", c.want)
		})
	}
}

// W10: a pod with the UID of a terminating pod runs after that one has finished.
func TestW10_UIDReuse(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.update(kill(pod("a"), 0, nil))
	h.update(Update{Type: Create, Pod: pod("a")})
	if known, orphaned := h.set.SyncKnownPods([]types.UID{"a"}); len(known) != 1 || len(orphaned) != 0 {
		t.Fatal("orphaned while it stops")
	}
	h.do("a", SyncTerminatingPod)
	h.do("a", SyncTerminatedPod)
	if known, orphaned := h.set.SyncKnownPods([]types.UID{"a"}); len(known) != 0 || len(orphaned) != 1 || !orphaned[0].Effects.Work {
		t.Fatal("not orphaned once it has finished")
	}
	if w := h.next("a", RemovePod); w.Removal != Replaced || w.Pod == nil || !h.set.Done(w, Succeeded).Work {
		t.Errorf("removed by %+v, want the pod for its successor, which has work", w)
	}
	h.do("a", SyncPod)
}

// W10: a new pod whose UID was reported while the old one was stopping, and not again, starts when the old one is
// forgotten, with its last update, unless it must stop or is no longer desired.
func TestW10_CreateDuringTheStopIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		news func(h *harness)
		runs bool
	}{
		"it comes": {func(*harness) {}, true},
		"it changes": {func(h *harness) {
			changed := pod("a")
			changed.Labels = map[string]string{"is": "changed"}
			h.update(Update{Type: Changed, Pod: changed})
		}, true},
		"it is killed":     {func(h *harness) { h.update(kill(pod("a"), 0, nil)) }, false},
		"it is not wanted": {func(h *harness) { h.set.SyncKnownPods(nil); h.set.SyncKnownPods([]types.UID{"a"}) }, false},
	} {
		for _, phase := range []WorkType{SyncTerminatingPod, SyncTerminatedPod} {
			t.Run(fmt.Sprint(name, ", in ", phase), func(t *testing.T) {
				h := newHarness(t)
				h.update(Update{Type: Create, Pod: pod("a")})
				h.do("a", SyncPod)
				h.update(kill(pod("a"), 0, nil))
				if phase == SyncTerminatedPod {
					h.do("a", SyncTerminatingPod)
				}
				h.update(Update{Type: Create, Pod: pod("a"), Status: &runtime.PodStatus{}, Stop: &StopRequest{}})
				c.news(h)
				for h.set.State("a").Phase < Finished {
					w, _, _ := h.set.Next(h.now, "a")
					h.set.Done(w, Succeeded)
				}
				h.set.SyncKnownPods([]types.UID{"a"})
				w := h.next("a", RemovePod)
				if e := h.set.Done(w, Succeeded); e.Work != c.runs || h.set.State("a").Known != c.runs {
					t.Fatalf("after the removal: %+v, want work: %t", e, c.runs)
				}
				if !c.runs {
					return
				}
				if w := h.next("a", SyncPod); (w.Pod.Labels["is"] == "changed") != (name == "it changes") {
					t.Errorf("it begins as %v, want its last update", w.Pod.Labels)
				}
			})
		}
	}
}

// W10: so does a new pod with the UID of a pod that only the runtime knows, and that is being stopped.
func TestW10_CreateDuringTheStopOfARuntimePodIsKept(t *testing.T) {
	h := newHarness(t)
	h.set.KillRuntimePod(h.now, RuntimePod{UID: "a", Name: "a", Namespace: "ns"})
	w := h.next("a", SyncTerminatingRuntimePod)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.set.Done(w, Succeeded)
	h.do("a", RemovePod)
	h.do("a", SyncPod)
}

func TestOrphansStop(t *testing.T) {
	h := newHarness(t)
	for _, uid := range []types.UID{"b", "a"} {
		h.update(Update{Type: Create, Pod: pod(uid)})
		h.do(uid, SyncPod)
	}
	busy := h.resync("b")
	known, _ := h.set.SyncKnownPods([]types.UID{"c"})
	if len(known) != 2 || known[0].UID != "a" || !known[0].Orphan || !known[0].Effects.Work || !known[1].Effects.Interrupt {
		t.Fatalf("known %+v, want a to work and b to be interrupted", known)
	}
	h.do("a", SyncTerminatingPod)
	h.set.Done(busy, Failed)
	h.next("b", SyncTerminatingPod)
	if !h.set.State("b").TerminationRequested || h.set.State("b").ContentShouldBeRemoved || !h.set.State("a").ContentShouldBeRemoved {
		t.Error("answers about orphans are wrong")
	}
}

// The loss of the last source does not interrupt work that already stops the pod.
func TestOrphansWaitForTheRetry(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.set.SyncKnownPods(nil)
	stop := h.next("a", SyncTerminatingPod)
	h.set.SyncKnownPods(nil)
	if e := h.set.Done(stop, Failed); !e.Retry || e.Work {
		t.Errorf("failed while no source wants it: %+v, want a retry", e)
	}
}

// A failed stop is retried immediately when the last source removes the pod.
func TestOrphanWhoseStopHasFailed(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.update(kill(pod("a"), 0, nil))
	h.set.Done(h.next("a", SyncTerminatingPod), Failed)
	if known, _ := h.set.SyncKnownPods(nil); len(known) != 1 || !known[0].Effects.Work {
		t.Fatalf("known %+v, want work for the orphan", known)
	}
	h.do("a", SyncTerminatingPod)
}

// A repeated outcome, or the outcome of work that was never started, has no effect.
func TestDoneOfWorkThatIsNotInFlight(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	w := h.resync("a")
	if e := h.set.Done(w, Succeeded); e.Work {
		t.Errorf("done: %+v", e)
	}
	h.update(Update{Type: Sync, Pod: pod("a")}) // pending work is no reason for effects
	for _, again := range []Work{w, {UID: "a", revision: 99}, {UID: "b"}} {
		if e := h.set.Done(again, Failed); e.Work || e.Retry || e.Interrupt {
			t.Errorf("work %d of %s is done once more: %+v, want no effects", again.revision, again.UID, e)
		}
	}
}

// resync requests and starts another sync of a synced pod.
func (h *harness) resync(uid types.UID) Work {
	h.t.Helper()
	h.update(Update{Type: Sync, Pod: pod(uid)})
	return h.next(uid, SyncPod)
}

// The files of a pod may be removed when it is evicted, or when it has stopped and no source wants it. The files of a
// finished pod that is still desired are kept.
func TestContentThatIsToBeRemoved(t *testing.T) {
	deleted, over := pod("a"), pod("a")
	deleted.DeletionTimestamp, over.Status.Phase = new(metav1.Now()), v1.PodFailed
	for name, c := range map[string]struct {
		u               Update
		before, stopped bool
	}{
		"evicted":   {Update{Type: Kill, Pod: pod("a"), Stop: &StopRequest{Evict: true}}, true, true},
		"killed":    {kill(pod("a"), 0, nil), false, false},
		"over":      {Update{Type: Changed, Pod: over}, false, false},
		"deleted":   {Update{Type: Changed, Pod: deleted}, false, true},
		"an orphan": {Update{Type: Kill, RuntimePod: &strayA}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.update(Update{Type: Create, Pod: pod("a")})
			h.do("a", SyncPod)
			h.update(c.u)
			before := h.set.State("a").ContentShouldBeRemoved
			h.do("a", SyncTerminatingPod)
			if stopped := h.set.State("a").ContentShouldBeRemoved; before != c.before || stopped != c.stopped {
				t.Errorf("before it has stopped %v, then %v", before, stopped)
			}
		})
	}
}

// Known returns the pods in the order of their UIDs, with the state of each.
func TestKnownReturnsPodsInOrder(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: static("b")})
	h.do("b", SyncPod)
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}})
	for _, uid := range []types.UID{"f", "e", "d", "c"} {
		h.update(Update{Type: Create, Pod: pod(uid)})
	}
	known, _ := h.set.SyncKnownPods([]types.UID{"a", "b", "c", "d", "e", "f"})
	for i, uid := range []types.UID{"a", "b", "c", "d", "e", "f"} {
		k := known[i]
		if k.UID != uid || k.Orphan || k.HasPod != (uid != "a") || k.Static != (uid == "b") {
			t.Errorf("%s: %+v, want UID %v and not k.Orphan and k.HasPod == (uid != \"a\") and k.Static == (uid == \"b\")", uid, k, uid)
		}
	}
}

func TestUnknownPods(t *testing.T) {
	var s Set
	if !s.State("a").MayHaveRunningContainers || s.State("a").ShouldBeFinished || s.State("a").RuntimeShouldBeRemoved ||
		s.State("a").ContentShouldBeRemoved || s.State("a").ContainersShouldBeTerminating {
		t.Error("before the sources spoke an unknown pod is taken to be gone")
	}
	s.SyncKnownPods(nil)
	if s.State("a").MayHaveRunningContainers || !s.State("a").ShouldBeFinished || !s.State("a").RuntimeShouldBeRemoved ||
		!s.State("a").ContentShouldBeRemoved || !s.State("a").ContainersShouldBeTerminating {
		t.Error("after the sources spoke an unknown pod is taken to be there")
	}
}

// W2: when the last source no longer has a pod, its work in flight is cancelled once.
func TestW2_OrphanIsInterruptedOnce(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.next("a", SyncPod)
	if known, _ := h.set.SyncKnownPods(nil); !known[0].Effects.Interrupt || known[0].Effects.Work {
		t.Errorf("at first %+v", known[0].Effects)
	}
	if known, _ := h.set.SyncKnownPods(nil); known[0].Effects.Interrupt || known[0].Effects.Work {
		t.Errorf("again %+v", known[0].Effects)
	}
	if known, _ := h.set.SyncKnownPods(nil); !known[0].HasPod || known[0].Static {
		t.Errorf("known %+v", known[0])
	}
}
