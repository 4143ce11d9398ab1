package podworkers

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// M1: a static pod that holds its name keeps it, and a pod that does not wait for a name has none.
func TestM1_TheTurnIsKept(t *testing.T) {
	var s statics
	all := func(types.UID) bool { return true }
	if s.start("name", "1", all) {
		t.Error("a pod that is not in line has its turn")
	}
	s.queue("name", "1")
	for range 2 {
		if !s.start("name", "1", all) {
			t.Error("the turn is not kept")
		}
	}
	if s.start("name", "2", all) {
		t.Error("another pod has the turn")
	}
}

// M1: of several static pods with one name, the next one starts when the previous one has finished. Pods that were
// removed meanwhile are skipped.
func TestM1_StaticPodsTakeTurns(t *testing.T) {
	h := newHarness(t)
	for _, uid := range []types.UID{"1", "2", "3", "4"} {
		h.update(Update{Type: Create, Pod: static(uid)})
	}
	h.waits("1", "")
	h.waits("2", "1")
	h.do("1", SyncPod)
	h.idle("2")
	h.idle("3")
	h.waits("1", "")
	h.waits("3", "1")
	h.update(kill(static("2"), 0, nil))
	h.idle("2")
	if _, orphaned := h.set.SyncKnownPods([]types.UID{"1", "2", "4"}); len(orphaned) != 1 || orphaned[0].Effects.Successors != nil {
		t.Errorf("orphaned %+v, want 3, which no pod waited for", orphaned)
	}
	h.update(kill(static("1"), 0, nil))
	h.do("1", SyncTerminatingPod)
	h.idle("4")
	if e := h.do("1", SyncTerminatedPod); !slices.Equal(e.Successors, []types.UID{"4"}) {
		t.Errorf("successors %v, want [4]", e.Successors)
	}
	h.do("4", SyncPod)
	if len(h.set.statics.waiting) != 0 {
		t.Errorf("still waiting: %v", h.set.statics.waiting)
	}
}

// waits checks which pod of its name a pod waits for.
func (h *harness) waits(uid, want types.UID) {
	h.t.Helper()
	state := h.set.State(uid)
	if state.waitsFor != want || strings.Contains(state.String(), "until pod "+string(want)+", which has its name") != (want != "") {
		h.t.Errorf("pod %s is %v and waits for %q, want %q", uid, state, state.waitsFor, want)
	}
}

// A static pod that the runtime has is stopped even if it still waits for its name, and no other pod with the name
// starts meanwhile.
func TestStaticPodOfTheRuntimeIsStopped(t *testing.T) {
	fromRuntime := Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a", Name: "static", Namespace: "ns"}, Stop: &StopRequest{ID: 1}}
	for name, run := range map[string]func(h *harness){
		"its definition comes while it is stopped": func(h *harness) {
			h.update(fromRuntime)
			w := h.next("a", SyncTerminatingRuntimePod)
			h.update(Update{Type: Sync, Pod: static("a")})
			h.set.Done(w, Failed)
		},
		"it waited for its turn": func(h *harness) {
			h.update(Update{Type: Create, Pod: static("other")})
			h.do("other", SyncPod)
			h.update(Update{Type: Create, Pod: static("a")})
			h.update(fromRuntime)
			h.update(kill(static("other"), 0, nil))
			h.do("other", SyncTerminatingPod)
			h.do("other", SyncTerminatedPod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			run(h)
			h.update(Update{Type: Create, Pod: static("next")})
			h.update(Update{Type: Kill, RuntimePod: fromRuntime.RuntimePod})
			if n := len(h.set.statics.stopping["static_ns"]); n != 1 {
				t.Errorf("%d pods are to stop first, want 1", n)
			}
			h.idle("next")
			h.waits("next", "a")
			if h.set.State("a").Terminated {
				t.Error("taken to be stopped")
			}
			if e := h.do("a", SyncTerminatingPod); !slices.Equal(e.Stopped, []StopID{1}) {
				t.Errorf("answered %v, want [1]", e.Stopped)
			}
			if e := h.do("a", SyncTerminatedPod); !slices.Equal(e.Successors, []types.UID{"next"}) {
				t.Errorf("successors %v, want [next]", e.Successors)
			}
			h.do("next", SyncPod)
		})
	}
}

// If an update makes a static pod a regular one, it no longer delays the static pods that wait for its name.
func TestStaticPodThatIsNoLongerStatic(t *testing.T) {
	h := newHarness(t)
	for _, uid := range []types.UID{"1", "2", "3"} {
		h.update(Update{Type: Create, Pod: static(uid)})
	}
	h.do("1", SyncPod)
	changed := static("2")
	changed.Annotations = nil
	h.update(Update{Type: Changed, Pod: changed})
	h.do("2", SyncPod)
	h.update(kill(static("1"), 0, nil))
	h.do("1", SyncTerminatingPod)
	if e := h.do("1", SyncTerminatedPod); !slices.Equal(e.Successors, []types.UID{"3"}) {
		t.Errorf("successors %v, want [3]", e.Successors)
	}
	h.do("3", SyncPod)
}

func TestOrderOfTurns(t *testing.T) {
	h := newHarness(t)
	for _, uid := range []types.UID{"2", "1", "2", "3"} {
		h.update(Update{Type: Create, Pod: static(uid)})
	}
	if got := h.set.statics.waiting["static_ns"]; !slices.Equal(got, []types.UID{"2", "1", "3"}) {
		t.Errorf("waiting %v, want each once", got)
	}
	h.idle("1")
	h.idle("3")
	h.do("2", SyncPod)
	h.update(Update{Type: Sync, Pod: static("2")})
	h.do("2", SyncPod)
	if got := h.set.statics.waiting["static_ns"]; !slices.Equal(got, []types.UID{"1", "3"}) {
		t.Errorf("waiting %v, want [1 3]", got)
	}
}

// The place in the queue belongs to the pod, not to its UID: a pod that was forgotten while it waited is queued again
// behind the pods that arrived before its return.
func TestM1_StaticPodThatReturnsIsLast(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: static("1")})
	h.do("1", SyncPod)
	for _, uid := range []types.UID{"2", "3"} {
		h.update(Update{Type: Create, Pod: static(uid)})
	}
	h.set.SyncKnownPods([]types.UID{"1", "3"})
	h.update(Update{Type: Create, Pod: static("2")})
	h.do("2", RemovePod)
	h.update(kill(static("1"), 0, nil))
	h.do("1", SyncTerminatingPod)
	if e := h.do("1", SyncTerminatedPod); !slices.Equal(e.Successors, []types.UID{"3"}) {
		t.Errorf("successors %v, want [3]", e.Successors)
	}
	h.do("3", SyncPod)
	h.idle("2")
}

// W6: a static pod of an earlier agent is stopped before it finishes, even if it still waits for its name here. Until
// then no other pod gets the name.
func TestW6_AdoptedStaticPodIsStopped(t *testing.T) {
	adopted := func(h *harness) {
		h.update(Update{Type: Create, Pod: static("a"), RuntimePod: &RuntimePod{UID: "a", Name: "static", Namespace: "ns"}})
	}
	for name, stop := range map[string]func(*harness){
		"killed":    func(h *harness) { h.update(kill(static("a"), 7, nil)) },
		"an orphan": func(h *harness) { h.set.SyncKnownPods([]types.UID{"b"}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			adopted(h)
			h.update(Update{Type: Create, Pod: static("b")})
			stop(h)
			h.idle("b")
			h.next("a", SyncTerminatingPod)
			h.idle("b")
			if h.set.State("a").Terminated {
				t.Error("taken to have stopped")
			}
		})
	}
	t.Run("in its turn", func(t *testing.T) {
		h := newHarness(t)
		h.update(Update{Type: Create, Pod: static("b")})
		adopted(h)
		h.idle("a")
		h.do("b", SyncPod)
		h.idle("a")
	})
}
