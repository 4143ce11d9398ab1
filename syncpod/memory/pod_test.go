package memory

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

func TestEarliest(t *testing.T) {
	later := now.Add(time.Second)
	for _, tc := range []struct{ a, b, want time.Time }{
		{time.Time{}, time.Time{}, time.Time{}}, {now, time.Time{}, now}, {time.Time{}, now, now}, {now, later, now}, {later, now, now}, {now, now, now},
	} {
		if got := Earliest(tc.a, tc.b); !got.Equal(tc.want) {
			t.Errorf("%v, %v: %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}

// W3: a deadline is never put off.
func TestW3_Hasten(t *testing.T) {
	var p Pod
	for _, tc := range []struct{ asked, want time.Duration }{{5, 5}, {9, 5}, {3, 3}, {4, 3}} {
		if got := p.Hasten(now.Add(tc.asked)); !got.Equal(now.Add(tc.want)) || !p.Deadline().Equal(got) {
			t.Errorf("asked for %d: %v, want %d", tc.asked, got.Sub(now), tc.want)
		}
	}
}

// The first reason to evict a pod counts, and the pod has its condition only if the node was
// under pressure.
func TestEvict(t *testing.T) {
	for _, disrupted := range []bool{true, false} {
		var p Pod
		why := &apistatus.Problem{Reason: "Evicted", Message: "memory"}
		if p.Disruption() != nil || p.Evicted() != nil {
			t.Error("a pod that was not evicted has a condition, or a reason")
		}
		p.Evict(nil, true)
		p.Evict(why, disrupted)
		p.Evict(&apistatus.Problem{Reason: "Other"}, !disrupted)
		why.Message = "changed"
		conditions := p.Disruption()
		if p.Evicted().Reason != "Evicted" || p.Evicted().Message != "memory" || (len(conditions) == 1) != disrupted {
			t.Errorf("disrupted %v: evicted for %+v, conditions %+v", disrupted, p.Evicted(), conditions)
		}
		if disrupted && (conditions[0].Type != v1.DisruptionTarget || conditions[0].Message != "memory") {
			t.Errorf("condition %+v", conditions[0])
		}
	}
}

// A stop that is called off leaves no deadline and no mark of a handler, even if the record
// with them is loaded later. Marks of starts stay.
func TestCallOff(t *testing.T) {
	all := StartRequested | PostStartPending | StopSignalled | PreStopRun | PreStopCompleted
	record := Record{Deadline: now, PreStopCompleted: []string{"2"}}
	for name, tc := range map[string]struct {
		before, after bool // the record is loaded
		ending        bool
		want          bool
		deadline      time.Time
		second        Mark // of the instance that the record names
	}{
		"no end":                       {},
		"an end":                       {ending: true, want: true},
		"an end in the record":         {before: true, want: true},
		"an end in a late record":      {after: true},
		"an end, and in a late record": {ending: true, after: true, want: true},
	} {
		p := New(&Limits{})
		p.Instances.Mark("1", all)
		if tc.before {
			p.Restore(record)
		}
		if tc.ending {
			p.Hasten(now)
		}
		if got := p.CallOff(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if tc.after {
			p.Restore(record)
		}
		marks := all
		if tc.want {
			marks = StartRequested | PostStartPending
		}
		if got := p.Instances.get("1").marks; got != marks || !p.Deadline().Equal(tc.deadline) || p.Instances.get("2").marks != tc.second {
			t.Errorf("%s: marks %b and %b, deadline %v", name, got, p.Instances.get("2").marks, p.Deadline())
		}
	}
}

// KEP-5532: all containers restart from the request until all are removed, and the pod starts over
// until all regular ones are created again.
func TestRestartAll(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "b"}}}}
	none, one, both := statusOf(), statusOf(at("1", 0, running)), statusOf(at("1", 0, running), runtime.ContainerStatus{Name: "b"})
	var p Pod
	for i, step := range []struct {
		requested, removed bool
		status             *runtime.PodStatus
		reported           bool
		restarts, over     bool
	}{
		{status: both},
		{requested: true, status: both, restarts: true, over: true},
		{status: both, restarts: true, over: true},
		{removed: true, status: none, over: true},
		{status: one, over: true},
		{status: both},
		{status: none},
		{status: one, reported: true, over: true},
		{status: both, reported: true},
		{status: one},
		{requested: true, removed: true, status: none, over: true},
	} {
		restarts := p.RestartsAll(step.requested, step.removed)
		over := p.StartsOver(pod, step.status, step.reported)
		if restarts != step.restarts || over != step.over {
			t.Errorf("step %d: restarts %v, starts over %v, want %v and %v", i, restarts, over, step.restarts, step.over)
		}
	}
}

// Deadlines of kills are the earliest given, for each instance and for all, until they end.
func TestKillDeadlines(t *testing.T) {
	var k KillDeadlines
	k.End(func(string) bool { return true })
	for _, tc := range []struct {
		what        string
		asked, want time.Duration
	}{{"1", 5, 5}, {"1", 9, 5}, {"1", 3, 3}, {"2", 9, 9}, {AllOfPod, 7, 7}} {
		if got := k.Begin(tc.what, now.Add(tc.asked)); !got.Equal(now.Add(tc.want)) {
			t.Errorf("%q: %v, want %d", tc.what, got.Sub(now), tc.want)
		}
	}
	k.End(func(what string) bool { return what == "1" })
	if one, two := k.Begin("1", now.Add(9)), k.Begin("2", now.Add(20)); !one.Equal(now.Add(3)) || !two.Equal(now.Add(20)) {
		t.Errorf("after the end of 2: %v and %v, want 3 and 20", one.Sub(now), two.Sub(now))
	}
}

// The sandbox in use is the one made last if the status has it, or else the active one.
func TestSandboxInUse(t *testing.T) {
	sandboxes := func(all ...runtime.SandboxStatus) *runtime.PodStatus { return &runtime.PodStatus{Sandboxes: all} }
	ready := func(id string, attempt uint32) runtime.SandboxStatus {
		return runtime.SandboxStatus{ID: id, Attempt: attempt, State: runtime.SandboxReady}
	}
	for name, tc := range map[string]struct {
		made   string
		status *runtime.PodStatus
		want   string
	}{
		"none":                  {"", sandboxes(), ""},
		"made, and not there":   {"m", sandboxes(), ""},
		"made":                  {"m", sandboxes(ready("x", 1), ready("m", 0)), "m"},
		"made by another agent": {"", sandboxes(ready("x", 1)), "x"},
		"another is there":      {"m", sandboxes(ready("x", 1)), "x"},
		"none is ready":         {"", sandboxes(runtime.SandboxStatus{ID: "x", State: runtime.SandboxNotReady}), ""},
	} {
		var s Sandbox
		s.SetMade(tc.made)
		if got := s.InUse(tc.status); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	var s Sandbox
	waited := sandboxes(ready("x", 1), ready("old", 0))
	if s.EndWait(sandboxes()) || s.EndWait(waited) {
		t.Error("a wait that never began has ended")
	}
	if !s.BeginWait("x") || s.BeginWait("x") || s.EndWait(sandboxes(ready("y", 2))) || s.EndWait(sandboxes()) || !s.EndWait(waited) || s.EndWait(waited) || !s.BeginWait("x") {
		t.Error("a wait begins once for each sandbox, and ends once")
	}
}

// Each mark belongs to one instance; a query returns only the requested marks.
func TestMarks(t *testing.T) {
	var i Instances
	for id, marks := range map[string]Mark{"b": StopSignalled | PreStopRun, "a": PreStopRun, "c": StopSignalled} {
		for _, what := range []Mark{StopSignalled, PreStopRun} {
			if marks&what != 0 && (!i.Mark(id, what) || i.Mark(id, what)) {
				t.Errorf("%s: mark %b is not new, or new twice", id, what)
			}
		}
	}
	i.Unmark("b", PreStopRun)
	i.Unmark("none", PreStopRun)
	if !i.Marked("a", PreStopRun) || i.Marked("b", PreStopRun) || !i.Marked("b", StopSignalled) || i.Marked("c", PreStopRun) || i.Marked("none", StopSignalled) || len(i) != 3 {
		t.Errorf("%+v %+v %+v", i.get("a"), i.get("b"), i.get("c"))
	}
	got := i.MarkedIn(statusOf(at("c", 0, running), at("a", 0, running), at("x", 0, running), at("b", 0, running)), StopSignalled)
	if want := []runtime.ContainerID{{ID: "c"}, {ID: "b"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, known := i.Message("a"); known {
		t.Error("a message that was not read is known")
	}
	i.SetMessage("a", "")
	if message, known := i.Message("a"); message != "" || !known {
		t.Errorf("%q, %v, want that it is empty", message, known)
	}
	i.SetMessage("a", "bye")
	if known := i.SetMessage("a", ""); known != "bye" {
		t.Errorf("%q, want bye", known)
	}
}

// C10: the recorded resources apply to running containers that do not report theirs.
func TestWithResources(t *testing.T) {
	var i Instances
	i.SetResources("1", runtime.ContainerResources{CPULimit: 7})
	own := at("1", 0, running)
	own.Resources = &runtime.ContainerResources{CPULimit: 3}
	for name, tc := range map[string]struct {
		given runtime.ContainerStatus
		want  *runtime.ContainerResources
	}{
		"runs": {at("1", 0, running), &runtime.ContainerResources{CPULimit: 7}}, "exited": {at("1", 0, exited), nil},
		"another": {at("2", 0, running), nil}, "reports its own": {own, own.Resources},
	} {
		given := statusOf(tc.given)
		got := i.WithResources(given).Containers[0].Resources
		if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want || given.Containers[0] != tc.given {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
		if got != nil && got == i.get("1").resources {
			t.Errorf("%s: the returned value is the stored one, want a copy", name)
		}
	}
	if i.WithResources(nil) != nil {
		t.Error("no status became one")
	}
}

// F14: which starts were cut short, for a report and for a decision.
func TestF14_WhichStartsAreCut(t *testing.T) {
	ran := at("1", 6, exited)
	ran.StartedAt = now
	for name, tc := range map[string]struct {
		requested bool
		c         runtime.ContainerStatus
		cut, open bool // open means that the mark stays
		next      uint32
	}{
		"asked, and exited unstarted": {true, at("1", 6, exited), true, true, 7},
		"asked, and created":          {true, at("1", 6, created), false, true, 7},
		"asked, and running":          {true, at("1", 6, running), false, false, 0},
		"asked, and ran":              {true, ran, false, false, 0},
		"not asked":                   {false, at("1", 6, exited), false, false, 0},
	} {
		var p Pod
		p.Instances.Mark("1", PreStopRun)
		if tc.requested {
			p.Instances.Mark("1", StartRequested)
		}
		want := 1
		if tc.cut {
			want = 0
		}
		given := statusOf(tc.c)
		if reported := p.Instances.WithoutCutStarts(given); len(reported.Containers) != want || len(given.Containers) != 1 {
			t.Errorf("%s: reported %v", name, ids(reported))
		}
		rest := p.SetAsideCutStarts(given)
		if len(rest.Containers) != want || p.Instances.Marked("1", StartRequested) != tc.open || p.Containers.get("app").nextAttempt != tc.next || !p.Instances.Marked("1", PreStopRun) {
			t.Errorf("%s: %v, marks %b, next attempt %d", name, ids(rest), p.Instances.get("1").marks, p.Containers.get("app").nextAttempt)
		}
	}
	if new(Instances).WithoutCutStarts(nil) != nil {
		t.Error("no status became one")
	}
}
