package podworkers

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "ns"}}
}

func static(uid types.UID) *v1.Pod {
	p := pod(uid)
	p.Name = "static"
	p.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
	return p
}

func ptr[T any](v T) *T { return &v }

// harness drives a Set in tests that spell out each step.
type harness struct {
	t   *testing.T
	set Set
	now time.Time
}

func newHarness(t *testing.T) *harness { return &harness{t: t, now: now} }

func (h *harness) update(u Update) Effects {
	h.t.Helper()
	e, err := h.set.Update(h.now, u)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

func (h *harness) next(uid types.UID, want WorkType) Work {
	h.t.Helper()
	w, ok, _ := h.set.Next(h.now, uid)
	if !ok || w.Type != want {
		h.t.Fatalf("Next(%s) = %v, %v; want %v", uid, w.Type, ok, want)
	}
	return w
}

func (h *harness) idle(uid types.UID) {
	h.t.Helper()
	if w, ok, _ := h.set.Next(h.now, uid); ok {
		h.t.Fatalf("Next(%s) = %v, want no work", uid, w.Type)
	}
}

func (h *harness) do(uid types.UID, want WorkType) Effects {
	h.t.Helper()
	return h.set.Done(h.next(uid, want), Succeeded)
}

func kill(p *v1.Pod, id StopID, grace *int64) Update {
	return Update{Type: Kill, Pod: p, Stop: &StopRequest{ID: id, GracePeriodSeconds: grace}}
}

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
	if !h.set.ShouldBeFinished("a") {
		t.Error("not finished at the end")
	}
	if _, forgotten := h.set.Known(nil); len(forgotten) != 1 || len(h.set.pods) != 0 {
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

// W2: a sync that does not heed its cancellation holds the stop up no longer
// than its owner waits, and what it says at last changes nothing.
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

// Work of a forgotten pod is not taken for that of a new pod with its UID.
func TestOutcomeOfForgottenPodIsDropped(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}})
	late := h.next("a", SyncTerminatingRuntimePod)
	h.set.Abandon(late)
	h.do("a", SyncTerminatingRuntimePod)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.next("a", SyncPod)
	if h.set.Done(late, Failed); h.set.pods["a"].inFlight == 0 {
		t.Error("the outcome of old work ended new work")
	}
}

// W3: time to stop only gets shorter, the deadline only earlier, at once.
func TestW3_GraceOnlyShrinks(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.update(kill(pod("a"), 0, ptr(int64(120))))
	w := h.next("a", SyncTerminatingPod)
	if want := now.Add(120 * time.Second); !w.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", w.Deadline, want)
	}
	h.now = now.Add(5 * time.Second)
	if e := h.update(kill(pod("a"), 0, ptr(int64(10)))); !e.Interrupt {
		t.Errorf("shortening: %+v, want an interrupt", e)
	}
	if e := h.update(kill(pod("a"), 0, ptr(int64(300)))); e.Interrupt {
		t.Errorf("lengthening: %+v, want no interrupt", e)
	}
	h.set.Done(w, Failed)
	w = h.next("a", SyncTerminatingPod)
	if want := now.Add(15 * time.Second); *w.GracePeriodSeconds != 10 || !w.Deadline.Equal(want) {
		t.Errorf("grace %ds until %v, want 10s until %v", *w.GracePeriodSeconds, w.Deadline, want)
	}
	h.now = now.Add(14 * time.Second)
	h.update(kill(pod("a"), 0, nil))
	h.set.Done(w, Failed)
	if w = h.next("a", SyncTerminatingPod); !w.Deadline.Equal(now.Add(15 * time.Second)) {
		t.Errorf("asking again moved the deadline to %v", w.Deadline)
	}
}

func TestEffectiveGrace(t *testing.T) {
	spec := func(deletion, own *int64) *v1.Pod {
		p := pod("a")
		p.DeletionGracePeriodSeconds, p.Spec.TerminationGracePeriodSeconds = deletion, own
		return p
	}
	for name, c := range map[string]struct {
		before int64
		pod    *v1.Pod
		asked  *int64
		want   int64
	}{
		"the spec's":                      {0, spec(nil, ptr(int64(30))), nil, 30},
		"nobody says":                     {0, spec(nil, nil), nil, 1},
		"the source's":                    {0, spec(ptr(int64(5)), ptr(int64(30))), nil, 5},
		"asked for less":                  {0, spec(ptr(int64(5)), ptr(int64(30))), ptr(int64(2)), 2},
		"asked for more":                  {0, spec(ptr(int64(5)), ptr(int64(30))), ptr(int64(9)), 5},
		"asked for more than the spec's":  {0, spec(nil, ptr(int64(30))), ptr(int64(60)), 60},
		"never below one":                 {0, spec(nil, ptr(int64(30))), ptr(int64(0)), 1},
		"a source's zero is the shortest": {0, spec(ptr(int64(0)), ptr(int64(30))), ptr(int64(9)), 1},
		"less than before":                {8, spec(nil, ptr(int64(30))), ptr(int64(4)), 4},
		"not more than before":            {8, spec(ptr(int64(20)), nil), ptr(int64(10)), 8},
		"no pod":                          {0, nil, nil, 1},
		"no pod, asked":                   {0, nil, ptr(int64(3)), 3},
	} {
		if got := effectiveGrace(c.before, c.pod, c.asked); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// W4: work that failed is never left without something that brings it back.
func TestW4_FailureAsksForRetry(t *testing.T) {
	h := newHarness(t)
	h.update(kill(pod("a"), 0, nil))
	for range 3 {
		if e := h.set.Done(h.next("a", SyncTerminatingPod), Failed); !e.Retry || e.Work {
			t.Fatalf("after a failure: %+v, want a retry", e)
		}
		if e := h.set.Again("a"); !e.Work {
			t.Fatalf("trying again: %+v, want work", e)
		}
	}
	w := h.next("a", SyncTerminatingPod)
	h.update(Update{Type: Sync, Pod: pod("a")})
	if e := h.set.Done(w, Failed); e.Retry || !e.Work {
		t.Errorf("a failure with news waiting: %+v, want work at once", e)
	}
}

// W5: a pod that only the runtime knows never reaches SyncTerminatedPod.
func TestW5_RuntimePodIsForgottenWhenStopped(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a", Name: "a", Namespace: "ns"}})
	w := h.next("a", SyncTerminatingRuntimePod)
	if w.Pod != nil || w.RuntimePod == nil || w.RuntimePod.Name != "a" {
		t.Errorf("work %+v, want the runtime pod", w)
	}
	if e := h.set.Done(w, Succeeded); e.Work || len(h.set.pods) != 0 {
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

// W7: a pod that ended under an earlier agent is only cleaned up after.
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
			h.next("a", c.want)
		})
	}
}

// W9: every request is answered exactly once, and no later than when nothing is
// left to stop.
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
			u := Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a"}, Stop: &StopRequest{ID: 9}}
			return h.update(u).Stopped
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
		"forgotten before its turn": func(h *harness) []StopID {
			h.update(Update{Type: Create, Pod: static("first")})
			h.do("first", SyncPod)
			h.update(kill(static("a"), 9, nil))
			_, forgotten := h.set.Known([]types.UID{"first"})
			return forgotten[0].Effects.Stopped
		},
		"failed first": func(h *harness) []StopID {
			h.update(kill(pod("a"), 9, nil))
			if e := h.set.Done(h.next("a", SyncTerminatingPod), Failed); e.Stopped != nil {
				return append(e.Stopped, 0)
			}
			h.set.Again("a")
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

// W10: a pod with the UID of one that stops runs once that one has finished.
func TestW10_UIDReuse(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.update(kill(pod("a"), 0, nil))
	h.update(Update{Type: Create, Pod: pod("a")})
	if known, forgotten := h.set.Known([]types.UID{"a"}); len(known) != 1 || len(forgotten) != 0 {
		t.Fatal("forgotten while it stops")
	}
	h.do("a", SyncTerminatingPod)
	h.do("a", SyncTerminatedPod)
	if known, _ := h.set.Known([]types.UID{"a"}); len(known) != 0 {
		t.Fatal("not forgotten once it has finished")
	}
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
}

// M1: of several static pods with one name the next starts when the one before
// has finished, and those that are gone by then are passed over.
func TestM1_StaticPodsTakeTurns(t *testing.T) {
	h := newHarness(t)
	for _, uid := range []types.UID{"1", "2", "3", "4"} {
		h.update(Update{Type: Create, Pod: static(uid)})
	}
	h.do("1", SyncPod)
	h.idle("2")
	h.idle("3")
	h.update(kill(static("2"), 0, nil))
	h.idle("2")
	h.set.Known([]types.UID{"1", "2", "4"})
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

func TestPodThatSaysItIsOverStops(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	if e := h.set.Done(h.next("a", SyncPod), SucceededTerminal); !e.Work {
		t.Errorf("effects %+v, want work", e)
	}
	if w := h.next("a", SyncTerminatingPod); w.GracePeriodSeconds != nil {
		t.Errorf("%+v, want the pod's own grace period: nobody asked for a stop", w)
	}
}

// The time of a pod that nobody asked to stop runs from when it is first told to,
// and does not begin again with the next try.
func TestDeadlineOfAPodThatNobodyAskedToStop(t *testing.T) {
	for name, stop := range map[string]func(*harness, Work){
		"over by itself": func(h *harness, w Work) { h.set.Done(w, SucceededTerminal) },
		"orphan":         func(h *harness, w Work) { h.set.Known(nil); h.set.Done(w, Failed) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			p := pod("a")
			p.Spec.TerminationGracePeriodSeconds = ptr(int64(30))
			h.update(Update{Type: Create, Pod: p})
			stop(h, h.next("a", SyncPod))
			h.now = now.Add(time.Second)
			for range 2 {
				w := h.next("a", SyncTerminatingPod)
				if want := now.Add(31 * time.Second); !w.Deadline.Equal(want) {
					t.Errorf("deadline %v, want %v", w.Deadline, want)
				}
				h.set.Done(w, Failed)
				h.set.Again("a")
				h.now = h.now.Add(10 * time.Second)
			}
			h.update(kill(p, 0, ptr(int64(5))))
			if w, want := h.next("a", SyncTerminatingPod), h.now.Add(5*time.Second); !w.Deadline.Equal(want) {
				t.Errorf("deadline after a request %v, want %v", w.Deadline, want)
			}
		})
	}
}

// What is to be reported of a pod is what the first request to stop it said that
// said anything, until it is cleaned up after.
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
	h.set.Abandon(Work{UID: "a", Revision: 1})
	for _, work := range []WorkType{SyncTerminatingPod, SyncTerminatedPod} {
		w := h.next("a", work)
		if w.Report != low {
			t.Errorf("%v with report %+v, want %+v", work, w.Report, low)
		}
		h.set.Done(w, Succeeded)
	}
}

func TestOrphansStop(t *testing.T) {
	h := newHarness(t)
	for _, uid := range []types.UID{"b", "a"} {
		h.update(Update{Type: Create, Pod: pod(uid)})
		h.do(uid, SyncPod)
	}
	busy := h.resync("b")
	known, _ := h.set.Known([]types.UID{"c"})
	if len(known) != 2 || known[0].UID != "a" || !known[0].Orphan || !known[0].Effects.Work || !known[1].Effects.Interrupt {
		t.Fatalf("known %+v, want a to work and b to be interrupted", known)
	}
	h.do("a", SyncTerminatingPod)
	h.set.Done(busy, Failed)
	h.next("b", SyncTerminatingPod)
	if !h.set.TerminationRequested("b") || h.set.ContentShouldBeRemoved("b") || !h.set.ContentShouldBeRemoved("a") {
		t.Error("answers about orphans are wrong")
	}
}

// resync puts a pod that has been synced back to work.
func (h *harness) resync(uid types.UID) Work {
	h.t.Helper()
	h.update(Update{Type: Sync, Pod: pod(uid)})
	return h.next(uid, SyncPod)
}

func TestEviction(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Kill, Pod: pod("a"), Stop: &StopRequest{Evict: true}})
	if !h.set.ContentShouldBeRemoved("a") {
		t.Error("the content of an evicted pod is kept")
	}
}

func TestUnknownPods(t *testing.T) {
	var s Set
	if !s.MayHaveRunningContainers("a") || s.ShouldBeFinished("a") || s.RuntimeShouldBeRemoved("a") {
		t.Error("before the sources spoke an unknown pod is taken to be gone")
	}
	s.Known(nil)
	if s.MayHaveRunningContainers("a") || !s.ShouldBeFinished("a") || !s.RuntimeShouldBeRemoved("a") || !s.ContentShouldBeRemoved("a") {
		t.Error("after the sources spoke an unknown pod is taken to be there")
	}
}

func TestUnusableUpdates(t *testing.T) {
	var s Set
	for want, u := range map[string]Update{
		"one of Pod and RuntimePod is required": {},
		"pod ns/x has no metadata.uid":          {Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns"}}},
		"runtime pod ns/y has no UID":           {Type: Kill, RuntimePod: &RuntimePod{Name: "y", Namespace: "ns"}},
	} {
		if _, err := s.Update(now, u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if w, ok, _ := s.Next(now, "nobody"); ok {
		t.Errorf("an unknown pod has work %v", w)
	}
	if e := s.Done(Work{UID: "nobody", Revision: 1}, Succeeded); e.Work || e.Retry {
		t.Errorf("work of an unknown pod has effects %+v", e)
	}
	if len(s.pods) != 0 {
		t.Error("unusable updates left something behind")
	}
}

// Everything the Set was lent is as it was.
func TestUpdatesAreNotWrittenTo(t *testing.T) {
	h := newHarness(t)
	p := pod("a")
	stop := &StopRequest{GracePeriodSeconds: ptr(int64(9))}
	h.update(Update{Type: Kill, Pod: p, Stop: stop})
	h.update(kill(p, 0, ptr(int64(2))))
	h.do("a", SyncTerminatingPod)
	if *stop.GracePeriodSeconds != 9 || stop.ID != 0 {
		t.Errorf("the request became %+v", stop)
	}
}

// A pod that the runtime has is stopped although it is static and never had its
// turn, and no other of its name starts meanwhile.
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
			h.idle("next")
			if h.set.Terminated("a") {
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

// News of a pod that comes while what the runtime had of its UID is stopped
// begins the pod anew.
func TestNewsDuringTheStopOfARuntimePod(t *testing.T) {
	for _, p := range []*v1.Pod{pod("a"), static("a")} {
		h := newHarness(t)
		h.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "a", Name: p.Name, Namespace: p.Namespace}})
		w := h.next("a", SyncTerminatingRuntimePod)
		h.update(Update{Type: Changed, Pod: p, Stop: &StopRequest{ID: 4}})
		if e := h.set.Done(w, Succeeded); !e.Work || !slices.Equal(e.Stopped, []StopID{4}) {
			t.Errorf("effects %+v, want work and the answer", e)
		}
		if w := h.next("a", SyncPod); w.Pod != p {
			t.Error("not the pod the news was of")
		}
	}
}

// A static pod that turns out not to be one does not hold up those behind it.
func TestStaticPodThatIsNoneAnyMore(t *testing.T) {
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
	h.idle("1")
	h.idle("3")
	h.do("2", SyncPod)
	h.update(Update{Type: Sync, Pod: static("2")})
	h.do("2", SyncPod)
	if got := h.set.statics.waiting["static_ns"]; !slices.Equal(got, []types.UID{"1", "3"}) {
		t.Errorf("waiting %v, want [1 3]", got)
	}
}

func TestStaticIsWhatComesFromTheNode(t *testing.T) {
	for source, want := range map[string]bool{"file": true, "http": true, "api": false} {
		p := pod("a")
		p.Annotations = map[string]string{runtime.AnnotationConfigSource: source}
		if got := isStatic(p); got != want {
			t.Errorf("a pod from %s is static: %v", source, got)
		}
	}
	if isStatic(pod("a")) || isStatic(nil) {
		t.Error("a pod without a source is static")
	}
}

// After SyncPod ended the pod its own time holds, and a request can shorten it
// at once, but not make it longer (kubernetes #83916).
func TestW3_AfterThePodEndedItself(t *testing.T) {
	for asked, want := range map[int64]struct {
		grace     int64
		interrupt bool
	}{5: {5, true}, 300: {30, false}} {
		h := newHarness(t)
		p := pod("a")
		p.Spec.TerminationGracePeriodSeconds = ptr(int64(30))
		h.update(Update{Type: Create, Pod: p})
		h.set.Done(h.next("a", SyncPod), SucceededTerminal)
		w := h.next("a", SyncTerminatingPod)
		if e := h.update(kill(p, 0, &asked)); e.Interrupt != want.interrupt {
			t.Errorf("asked for %ds: interrupt %v", asked, e.Interrupt)
		}
		h.set.Done(w, Failed)
		if w = h.next("a", SyncTerminatingPod); *w.GracePeriodSeconds != want.grace {
			t.Errorf("asked for %ds: given %ds, want %ds", asked, *w.GracePeriodSeconds, want.grace)
		}
	}
}

// No grace period is so long that its deadline is in the past.
func TestW3_VeryLongGrace(t *testing.T) {
	for _, grace := range []int64{1 << 33, 9223372037, 18446744074, 1<<63 - 1} {
		h := newHarness(t)
		h.update(kill(pod("a"), 0, &grace))
		if w := h.next("a", SyncTerminatingPod); w.Deadline.Before(now.AddDate(200, 0, 0)) {
			t.Errorf("grace %ds: deadline %v", grace, w.Deadline)
		}
	}
}

// What is handed out shares no memory with the Set.
func TestWorkIsItsOwn(t *testing.T) {
	h := newHarness(t)
	h.update(kill(pod("a"), 0, ptr(int64(9))))
	w := h.next("a", SyncTerminatingPod)
	*w.GracePeriodSeconds = 99
	h.set.Done(w, Failed)
	h.set.Again("a")
	if w = h.next("a", SyncTerminatingPod); *w.GracePeriodSeconds != 9 {
		t.Errorf("given %ds, want 9s", *w.GracePeriodSeconds)
	}
}

func TestRepeatedWork(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	w := h.next("a", SyncPod)
	if e := h.set.Again("a"); e.Work {
		t.Error("work is handed out beside that in flight")
	}
	h.set.Done(w, Succeeded)
	again := h.next("a", SyncPod)
	if again.UpdateType != Sync {
		t.Errorf("the repetition is a %v", again.UpdateType)
	}
	if e := h.set.Abandon(w); e.Work || h.set.pods["a"].inFlight == 0 {
		t.Error("abandoning old work touched the new")
	}
	newer := pod("a")
	h.update(Update{Type: Changed, Pod: newer})
	h.set.Abandon(again)
	if w := h.next("a", SyncPod); w.Pod != newer || w.UpdateType != Changed {
		t.Errorf("%v of %p, want the news", w.UpdateType, w.Pod)
	}
}

// News that waits does not keep a pod from coming to its end.
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

func TestOrphanIsInterruptedOnce(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.next("a", SyncPod)
	if known, _ := h.set.Known(nil); !known[0].Effects.Interrupt || known[0].Effects.Work {
		t.Errorf("at first %+v", known[0].Effects)
	}
	if known, _ := h.set.Known(nil); known[0].Effects.Interrupt || known[0].Effects.Work {
		t.Errorf("again %+v", known[0].Effects)
	}
	if known, _ := h.set.Known(nil); !known[0].HasPod || known[0].Static {
		t.Errorf("known %+v", known[0])
	}
}

// The status is asked once, and not kept for the life of the pod.
func TestStatusIsNotKept(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a"), Status: &runtime.PodStatus{}})
	h.do("a", SyncPod)
	if s := h.set.pods["a"]; s.active.Status != nil {
		t.Error("the status is kept")
	}
}
