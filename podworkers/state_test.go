package podworkers

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

func TestWholeLife(t *testing.T) {
	h := newHarness(t)
	if e := h.update(Update{Type: Create, Pod: pod("a")}); !e.Work {
		t.Error("a new pod has no work")
	}
	h.do("a", SyncPod)
	h.idle("a")
	h.update(kill(pod("a"), 7, nil))
	if e := h.do("a", SyncTerminatingPod); !e.Work || !slices.Equal(e.Stopped, []StopID{7}) {
		t.Errorf("after stopping: %+v, want more work and the request answered", e)
	}
	h.do("a", SyncTerminatedPod)
	h.idle("a")
	if !h.set.State("a").ShouldBeFinished {
		t.Error("not finished at the end")
	}
	if _, orphaned := h.set.SyncKnownPods(nil); len(orphaned) != 1 || !orphaned[0].Effects.Work || orphaned[0].Phase != Orphaned {
		t.Errorf("orphaned %+v, want the pod, and work", orphaned)
	}
	if h.do("a", RemovePod); len(h.set.pods) != 0 {
		t.Errorf("not forgotten: %v", h.set.pods)
	}
}

// W1: merging updates never turns a kill into a sync, in either order.
func TestW1_SyncAfterKillStaysKill(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	w := h.next("a", SyncPod)
	if e := h.update(kill(pod("a"), 0, nil)); !e.Interrupt || e.Work {
		t.Errorf("kill during a sync: %+v, want an interrupt", e)
	}
	h.update(Update{Type: Sync, Pod: pod("a")})
	h.set.Done(w, Succeeded)
	h.next("a", SyncTerminatingPod)
}

// W1: no later event cancels the stop of a pod, whatever has caused the stop. Once the stop has begun, no container of the
// pod may be started.
func TestW1_NothingCancelsAStop(t *testing.T) {
	deleted, over := pod("a"), pod("a")
	deleted.DeletionTimestamp, over.Status.Phase = new(metav1.Now()), v1.PodFailed
	for name, u := range map[string]Update{
		"deletion": {Type: Changed, Pod: deleted},
		"end":      {Type: Changed, Pod: over},
		"kill":     kill(pod("a"), 0, nil),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.update(Update{Type: Create, Pod: pod("a")})
			h.do("a", SyncPod)
			h.update(u)
			h.update(Update{Type: Changed, Pod: pod("a")})
			if h.set.State("a").ContainersShouldBeTerminating {
				t.Error("ContainersShouldBeTerminating is true before the stop")
			}
			h.next("a", SyncTerminatingPod)
			if !h.set.State("a").ContainersShouldBeTerminating {
				t.Error("ContainersShouldBeTerminating is false during the stop")
			}
		})
	}
}

// W2: a sync that ignores its cancellation delays the stop no longer than its owner waits, and its late result has no
// effect.
func TestW2_AbandonedWorkIsDropped(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	late := h.next("a", SyncPod)
	h.update(kill(pod("a"), 1, nil))
	if e := h.set.Abandon(late); !e.Work {
		t.Fatalf("after abandoning: %+v, want work", e)
	}
	w := h.next("a", SyncTerminatingPod)
	if e := h.set.Done(late, SucceededTerminal); e.Work || e.Retry || e.Stopped != nil {
		t.Errorf("late outcome had effects: %+v", e)
	}
	if e := h.set.Done(w, Succeeded); !slices.Equal(e.Stopped, []StopID{1}) {
		t.Errorf("stop: %+v, want the request answered", e)
	}
}

func TestAbandonedSyncIsDoneAgain(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.set.Abandon(h.next("a", SyncPod))
	h.next("a", SyncPod)
}

// The result of work on a forgotten pod does not count for a new pod with its UID. No pod is removed during work on it:
// the removal waits until abandoned work has returned.
func TestOutcomeOfForgottenPodIsDropped(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}})
	late := h.next("a", SyncTerminatingRuntimePod)
	h.set.Abandon(late)
	h.do("a", SyncTerminatingRuntimePod)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.idle("a")
	if e := h.set.Done(late, Failed); !e.Work {
		t.Errorf("the last work has returned: %+v, want the removal", e)
	}
	if e := h.do("a", RemovePod); !e.Work {
		t.Errorf("the pod is removed: %+v, want the work of the next", e)
	}
	h.next("a", SyncPod)
	if h.set.Done(late, Failed); h.set.pods["a"].inFlight == 0 {
		t.Error("the outcome of old work ended new work")
	}
}

// W4: failed work always has a retry.
func TestW4_FailureAsksForRetry(t *testing.T) {
	h := newHarness(t)
	h.update(kill(pod("a"), 0, nil))
	for range 3 {
		if e := h.set.Done(h.next("a", SyncTerminatingPod), Failed); !e.Retry || e.Work {
			t.Fatalf("after a failure: %+v, want a retry", e)
		}
		if e := h.set.Requeue("a"); !e.Work {
			t.Fatalf("trying again: %+v, want work", e)
		}
	}
	w := h.next("a", SyncTerminatingPod)
	h.update(Update{Type: Sync, Pod: pod("a")})
	if e := h.set.Done(w, Failed); e.Retry || !e.Work {
		t.Errorf("a failure with news waiting: %+v, want work at once", e)
	}
}

// W5: SyncTerminatedPod is never called for a pod that only the runtime has.
func TestW5_RuntimePodIsForgottenWhenStopped(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a", Name: "a", Namespace: "ns"}})
	w := h.next("a", SyncTerminatingRuntimePod)
	if w.Pod != nil || w.RuntimePod == nil || w.RuntimePod.Name != "a" {
		t.Errorf("work %+v, want the runtime pod", w)
	}
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}, Stop: &StopRequest{ID: 2}}) // no news
	if e := h.set.Done(w, Succeeded); !e.Work || !slices.Equal(e.Stopped, []StopID{2}) {
		t.Errorf("effects %+v; want the removal, and the answer", e)
	}
	if e := h.do("a", RemovePod); e.Work || len(h.set.pods) != 0 {
		t.Errorf("effects %+v, pods %v; want it forgotten", e, h.set.pods)
	}
}

func TestRuntimePodIsOnlyKilled(t *testing.T) {
	h := newHarness(t)
	e := h.update(Update{Type: Sync, RuntimePod: &RuntimePod{UID: "a"}, Stop: &StopRequest{ID: 3}})
	if !slices.Equal(e.Stopped, []StopID{3}) || len(h.set.pods) != 0 {
		t.Errorf("%+v, pods %v; want only an answer", e, h.set.pods)
	}
}

// W9: a request that was answered when the pod had stopped is not answered again when the pod has finished.
func TestW9_AnsweredOnceOverTheWholeEnd(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.update(kill(pod("a"), 5, nil))
	answers := append(h.do("a", SyncTerminatingPod).Stopped, h.do("a", SyncTerminatedPod).Stopped...)
	if !slices.Equal(answers, []StopID{5}) {
		t.Errorf("answered %v, want 5 once", answers)
	}
	if e := h.update(kill(pod("a"), 0, nil)); e.Stopped != nil {
		t.Errorf("answered %v to who asked for no answer", e.Stopped)
	}
}

// W9: every request is answered exactly once, at the latest when the pod has stopped.
func TestW9_EveryKillIsAnsweredOnce(t *testing.T) {
	finished := func(h *harness) {
		h.update(kill(pod("a"), 0, nil))
		h.do("a", SyncTerminatingPod)
		h.do("a", SyncTerminatedPod)
	}
	for name, run := range map[string]func(h *harness) []StopID{
		"finished": func(h *harness) []StopID {
			finished(h)
			return h.update(kill(pod("a"), 9, nil)).Stopped
		},
		"terminated": func(h *harness) []StopID {
			h.update(kill(pod("a"), 0, nil))
			h.do("a", SyncTerminatingPod)
			return h.update(kill(pod("a"), 9, nil)).Stopped
		},
		"terminated, seen by the runtime": func(h *harness) []StopID {
			h.update(kill(pod("a"), 0, nil))
			h.do("a", SyncTerminatingPod)
			h.set.Done(h.next("a", SyncTerminatedPod), Failed)
			e := h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}, Stop: &StopRequest{ID: 9}})
			if e.Work {
				h.t.Error("what the runtime had of it ends the wait for the next try")
			}
			return e.Stopped
		},
		"finished, created anew": func(h *harness) []StopID {
			finished(h)
			return h.update(Update{Type: Create, Pod: pod("a"), Stop: &StopRequest{ID: 9}}).Stopped
		},
		"stopping, created anew": func(h *harness) []StopID {
			h.update(kill(pod("a"), 0, nil))
			if e := h.update(Update{Type: Create, Pod: pod("a"), Stop: &StopRequest{ID: 9}}); e.Stopped != nil {
				return append(e.Stopped, 0)
			}
			return h.do("a", SyncTerminatingPod).Stopped
		},
		"not to stop": func(h *harness) []StopID {
			return h.update(Update{Type: Sync, Pod: pod("a"), Stop: &StopRequest{ID: 9}}).Stopped
		},
		"runtime only": func(h *harness) []StopID {
			h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}, Stop: &StopRequest{ID: 9}})
			return h.do("a", SyncTerminatingRuntimePod).Stopped
		},
		"static, before its turn": func(h *harness) []StopID {
			h.update(Update{Type: Create, Pod: static("first")})
			h.do("first", SyncPod)
			h.update(Update{Type: Create, Pod: static("a")})
			h.update(kill(static("a"), 9, nil))
			_, ok, e := h.set.Next(h.now, "a")
			if ok {
				h.t.Error("it was started")
			}
			return e.Stopped
		},
		"orphaned before its turn": func(h *harness) []StopID {
			h.update(Update{Type: Create, Pod: static("first")})
			h.do("first", SyncPod)
			h.update(kill(static("a"), 9, nil))
			_, orphaned := h.set.SyncKnownPods([]types.UID{"first"})
			return orphaned[0].Effects.Stopped
		},
		"failed first": func(h *harness) []StopID {
			h.update(kill(pod("a"), 9, nil))
			if e := h.set.Done(h.next("a", SyncTerminatingPod), Failed); e.Stopped != nil {
				return append(e.Stopped, 0)
			}
			h.set.Requeue("a")
			return h.do("a", SyncTerminatingPod).Stopped
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(newHarness(t)); !slices.Equal(got, []StopID{9}) {
				t.Errorf("answered %v, want [9]", got)
			}
		})
	}
}

// A pod with a terminal phase at its source counts as stopped, unless one of its containers is alive.
func TestPodThatWasOverBefore(t *testing.T) {
	for name, c := range map[string]struct {
		status *runtime.PodStatus
		alive  bool
	}{
		"nothing is known":         {nil, true},
		"nothing is there":         {&runtime.PodStatus{}, false},
		"a container runs":         {&runtime.PodStatus{Containers: []runtime.ContainerStatus{{State: runtime.ContainerRunning}}}, true},
		"a container has exited":   {&runtime.PodStatus{Containers: []runtime.ContainerStatus{{State: runtime.ContainerExited}}}, false},
		"its sandbox is ready":     {&runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{{State: runtime.SandboxReady}}}, true},
		"its sandbox is not ready": {&runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{{State: runtime.SandboxNotReady}}}, false},
	} {
		h, over := newHarness(t), pod("a")
		over.Status.Phase = v1.PodFailed
		h.update(Update{Type: Create, Pod: over, Status: c.status})
		want := SyncTerminatedPod
		if c.alive {
			want = SyncTerminatingPod
		}
		if w, _, _ := h.set.Next(h.now, "a"); w.Type != want {
			t.Errorf("%s: %v, want %v", name, w.Type, want)
		}
	}
}

func TestPodWithATerminalPhaseStops(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	if e := h.set.Done(h.next("a", SyncPod), SucceededTerminal); !e.Work || !h.set.State("a").ContainersShouldBeTerminating {
		t.Errorf("effects %+v, want work, and nothing started from now on", e)
	}
	if w := h.next("a", SyncTerminatingPod); w.GracePeriodSeconds != nil {
		t.Errorf("%+v, want the pod's own grace period, because no caller requested the stop", w)
	}
}

// The status of a pod has the reason of the first stop request with a reason, until the pod is cleaned up.
func TestReportOfTheFirstRequestCounts(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	if w := h.next("a", SyncPod); w.Report != nil {
		t.Errorf("report %+v, want none while the pod is to run", w.Report)
	}
	low := &StopReport{Reason: "Evicted", Message: "The node was low on resource: memory."}
	asking := func(r *StopReport) Update {
		return Update{Type: Kill, Pod: pod("a"), Stop: &StopRequest{Report: r}}
	}
	h.update(asking(nil))
	h.update(asking(low))
	h.update(asking(&StopReport{Reason: "Terminated"}))
	h.update(Update{Type: Sync, Pod: pod("a")})
	h.set.Abandon(Work{UID: "a", revision: 1})
	for _, work := range []WorkType{SyncTerminatingPod, SyncTerminatedPod} {
		w := h.next("a", work)
		if w.Report != low {
			t.Errorf("%v with report %+v, want %+v", work, w.Report, low)
		}
		h.set.Done(w, Succeeded)
	}
}

// If a pod is created while containers of its UID, which only the runtime had, are being stopped, the pod starts after
// that.
func TestNewsDuringTheStopOfARuntimePod(t *testing.T) {
	for _, p := range []*v1.Pod{pod("a"), static("a")} {
		h := newHarness(t)
		h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a", Name: p.Name, Namespace: p.Namespace}})
		w := h.next("a", SyncTerminatingRuntimePod)
		h.update(Update{Type: Changed, Pod: p, Stop: &StopRequest{ID: 4}})
		if e := h.set.Done(w, Succeeded); !e.Work || !slices.Equal(e.Stopped, []StopID{4}) {
			t.Errorf("effects %+v, want work and the answer", e)
		}
		h.do("a", RemovePod)
		if w := h.next("a", SyncPod); w.Pod != p {
			t.Error("not the pod the news was of")
		}
	}
}

// The update of a deleted pod sets the grace period of a pod that only the runtime had; it starts with the update.
func TestDeletionDuringTheStopOfARuntimePod(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}})
	w := h.next("a", SyncTerminatingRuntimePod)
	p := pod("a")
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), ptr(int64(7))
	h.update(Update{Type: Changed, Pod: p})
	h.set.Done(w, Succeeded)
	h.do("a", RemovePod)
	if w := h.next("a", SyncTerminatingPod); !w.Deadline.Equal(now.Add(7 * time.Second)) {
		t.Errorf("deadline %v, want 7s from %v", w.Deadline, now)
	}
}

// A source that creates a known pod again, for example after a reconnect, is treated like an update.
func TestPodThatRunsIsCreatedAgain(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	newer := pod("a")
	if e := h.update(Update{Type: Create, Pod: newer}); !e.Work {
		t.Errorf("effects %+v, want work", e)
	}
	if w := h.next("a", SyncPod); w.Pod != newer {
		t.Error("not the pod the news was of")
	}
}

// Returned values share no memory with the Set.
func TestWorkIsItsOwn(t *testing.T) {
	h := newHarness(t)
	h.update(kill(pod("a"), 0, ptr(int64(9))))
	w := h.next("a", SyncTerminatingPod)
	*w.GracePeriodSeconds = 99
	h.set.Done(w, Failed)
	h.set.Requeue("a")
	if w = h.next("a", SyncTerminatingPod); *w.GracePeriodSeconds != 9 {
		t.Errorf("given %ds, want 9s", *w.GracePeriodSeconds)
	}
}

// A pending update does not prevent the end of a pod.
func TestStopSucceedsWithNewsWaiting(t *testing.T) {
	h := newHarness(t)
	h.update(kill(pod("a"), 6, nil))
	w := h.next("a", SyncTerminatingPod)
	h.update(Update{Type: Sync, Pod: pod("a")})
	if e := h.set.Done(w, Succeeded); !slices.Equal(e.Stopped, []StopID{6}) {
		t.Errorf("answered %v, want [6]", e.Stopped)
	}
	h.next("a", SyncTerminatedPod)
}
