package podworkers

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

var strayA = RuntimePod{UID: "a", Name: "a", Namespace: "ns"}

// stoppedPod returns a harness whose pod a has reached the given phase.
func stoppedPod(t *testing.T, phase Phase) *harness {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.update(kill(pod("a"), 0, nil))
	if phase >= Terminated {
		h.do("a", SyncTerminatingPod)
	}
	if phase == Finished {
		h.do("a", SyncTerminatedPod)
	}
	return h
}

// W6: a running container of a finished pod is stopped, even if the pod is still desired. Until then no caller sees the pod
// as terminated.
func TestW6_StrayOfFinishedPodIsStopped(t *testing.T) {
	h := stoppedPod(t, Finished)
	if e := h.set.KillRuntimePod(now, strayA); !e.Work || h.set.State("a").Terminated || !h.set.State("a").MayHaveRunningContainers || h.set.State("a").RuntimeShouldBeRemoved {
		t.Fatalf("effects %+v, want work, and the pod not taken to be stopped", e)
	}
	w := h.next("a", SyncTerminatingRuntimePod)
	if w.RuntimePod == nil || *w.RuntimePod != strayA {
		t.Errorf("work %+v, want the runtime's pod", w)
	}
	if _, orphaned := h.set.SyncKnownPods(nil); len(orphaned) != 0 {
		t.Error("orphaned while it is being stopped")
	}
	if e := h.set.Done(w, Failed); !e.Retry || h.set.State("a").ShouldBeFinished {
		t.Errorf("after a failure: %+v, want a retry", e)
	}
	if e := h.set.Requeue("a"); !e.Work {
		t.Errorf("trying again: %+v, want work", e)
	}
	if known, _ := h.set.SyncKnownPods([]types.UID{"a"}); len(known) != 1 {
		t.Error("the pod is not known while it is being stopped")
	}
	if e := h.do("a", SyncTerminatingRuntimePod); e.Work || e.Retry || !h.set.State("a").Terminated || !h.set.State("a").ShouldBeFinished {
		t.Errorf("after the stop: %+v, want it finished as before", e)
	}
	h.idle("a")
	if _, orphaned := h.set.SyncKnownPods(nil); len(orphaned) != 1 {
		t.Error("not orphaned in the end")
	}
}

// If the removal of a finished pod must wait until orphaned containers are stopped, it follows without another report
// that no source wants the pod.
func TestW11_RemovalAfterSweep(t *testing.T) {
	create := Update{Type: Create, Pod: pod("a")}
	for name, c := range map[string]struct {
		meanwhile func(h *harness)
		removal   Removal
	}{
		"no source wants the pod":             {func(h *harness) { h.set.SyncKnownPods(nil) }, Unwanted},
		"a source wants a new pod of its UID": {func(h *harness) { h.update(create); h.set.SyncKnownPods([]types.UID{"a"}) }, Replaced},
		"a source reports the pod again": {func(h *harness) {
			h.set.SyncKnownPods(nil)
			h.update(Update{Type: Changed, Pod: pod("a")})
		}, NotRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			h := stoppedPod(t, Finished)
			h.set.KillRuntimePod(now, strayA)
			w := h.next("a", SyncTerminatingRuntimePod)
			c.meanwhile(h)
			e := h.set.Done(w, Succeeded)
			if got := h.set.State("a").Removal; got != c.removal || e.Work != (c.removal != NotRemoved) {
				t.Errorf("removal %v and effects %+v, want removal %v", got, e, c.removal)
			}
		})
	}
}

func TestStrayOfTerminatedPodIsStoppedBeforeCleanUp(t *testing.T) {
	h := stoppedPod(t, Terminated)
	h.set.KillRuntimePod(now, strayA)
	h.do("a", SyncTerminatingRuntimePod)
	h.do("a", SyncTerminatedPod)
	if !h.set.State("a").ShouldBeFinished {
		t.Error("not finished")
	}
}

func TestStrayDuringCleanUp(t *testing.T) {
	for _, o := range []Outcome{Succeeded, Failed} {
		h := stoppedPod(t, Terminated)
		w := h.next("a", SyncTerminatedPod)
		h.set.KillRuntimePod(now, strayA)
		if e := h.set.Done(w, o); !e.Work || e.Retry {
			t.Errorf("after the clean-up: %+v, want work at once", e)
		}
		if e := h.do("a", SyncTerminatingRuntimePod); e.Work != (o == Failed) {
			t.Errorf("after the sweep: %+v, want clean-up again only if it failed", e)
		}
	}
}

// The stop in progress may have missed a container that started meanwhile.
func TestStrayDuringStopIsStoppedAgain(t *testing.T) {
	h := stoppedPod(t, Terminating)
	w := h.next("a", SyncTerminatingPod)
	if e := h.set.KillRuntimePod(now, strayA); e.Work {
		t.Errorf("effects %+v, want none while work is in flight", e)
	}
	if e := h.set.Done(w, Succeeded); !e.Work || h.set.State("a").Terminated {
		t.Errorf("effects %+v, want the pod to be stopped again", e)
	}
	h.do("a", SyncTerminatingPod)
	h.do("a", SyncTerminatedPod)
}

func TestStrayDuringSweepIsSweptAgain(t *testing.T) {
	h := stoppedPod(t, Finished)
	h.set.KillRuntimePod(now, strayA)
	for _, o := range []Outcome{Succeeded, Failed} {
		w := h.next("a", SyncTerminatingRuntimePod)
		h.set.KillRuntimePod(now, strayA)
		if e := h.set.Done(w, o); !e.Work || e.Retry {
			t.Errorf("effects %+v, want work", e)
		}
	}
	h.set.Abandon(h.next("a", SyncTerminatingRuntimePod))
	h.do("a", SyncTerminatingRuntimePod)
	h.idle("a")
}

func TestStrayOfOtherPods(t *testing.T) {
	h := newHarness(t)
	if e := h.set.KillRuntimePod(now, strayA); !e.Work {
		t.Errorf("an unknown pod: %+v, want work", e)
	}
	h.do("a", SyncTerminatingRuntimePod)
	h.do("a", RemovePod)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	if e := h.set.KillRuntimePod(now, strayA); !e.Work || h.set.State("a").TerminationRequested {
		t.Errorf("a pod that runs: %+v, want it looked at again", e)
	}
	h.do("a", SyncPod)
	if e := h.set.KillRuntimePod(now, RuntimePod{}); e.Work || len(h.set.pods) != 1 {
		t.Errorf("no UID: %+v, want nothing", e)
	}
}

// The Set has no spec of a static pod that never started once that pod has finished.
func TestStrayOfPodThatNeverStarted(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: static("first")})
	h.do("first", SyncPod)
	h.update(kill(static("a"), 0, nil))
	h.idle("a")
	h.set.KillRuntimePod(now, strayA)
	h.do("a", SyncTerminatingRuntimePod)
	if !h.set.State("a").ShouldBeFinished {
		t.Error("not finished")
	}
	if known, _ := h.set.SyncKnownPods([]types.UID{"a", "first"}); len(known) != 2 {
		t.Errorf("known %v, want it remembered while it is wanted", known)
	}
}

// A waiting static pod with containers from an earlier agent is not an orphan: it keeps waiting, and adopts them.
func TestStrayOfWaitingStaticPodKeepsItsPlace(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: static("a")})
	h.update(Update{Type: Create, Pod: static("b")})
	h.do("a", SyncPod)
	h.set.KillRuntimePod(now, RuntimePod{UID: "b", Name: "static", Namespace: "ns"})
	h.idle("b")
	h.update(kill(static("a"), 0, nil))
	h.do("a", SyncTerminatingPod)
	h.do("a", SyncTerminatedPod)
	h.do("b", SyncPod)
}

// A waiting static pod that must stop is stopped if the runtime has containers of it. Until then no other pod gets its name.
func TestStrayOfStaticPodThatIsToStop(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: static("a")})
	h.update(kill(static("a"), 0, nil))
	h.set.KillRuntimePod(now, RuntimePod{UID: "a", Name: "static", Namespace: "ns"})
	h.update(Update{Type: Create, Pod: static("b")})
	h.idle("b")
	h.do("a", SyncTerminatingPod)
	h.do("a", SyncTerminatedPod)
	h.do("b", SyncPod)
}

// An update of a finished static pod does not take the name from another pod, even if the runtime once had containers of the
// finished one.
func TestFinishedStaticPodBlocksNoOther(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: static("a")})
	h.do("a", SyncPod)
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a", Name: "static", Namespace: "ns"}})
	h.do("a", SyncTerminatingPod)
	h.do("a", SyncTerminatedPod)
	h.update(Update{Type: Sync, Pod: static("a")})
	h.update(Update{Type: Create, Pod: static("b")})
	h.do("b", SyncPod)
}
