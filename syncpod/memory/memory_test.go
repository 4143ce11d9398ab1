package memory

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// marks returns the instances with a mark.
func (p *Pod) marks(what Mark) (ids []string) {
	for _, inst := range p.Instances {
		if inst.marks&what != 0 {
			ids = append(ids, inst.id)
		}
	}
	return ids
}

// F14: an instance whose start was interrupted only uses up its attempt. Other
// instances, and those that ran, do not change.
func TestF14_CutStarts(t *testing.T) {
	at := func(id string, state runtime.ContainerState, started time.Time, attempt uint32) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: "app", ID: runtime.ContainerID{ID: id}, State: state, StartedAt: started, Attempt: attempt}
	}
	m := New(&Limits{})
	for _, id := range []string{"cut", "ran", "created", "runs", "gone"} {
		m.Instances.Mark(id, StartRequested)
	}
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{
		at("cut", runtime.ContainerExited, time.Time{}, 6), at("ran", runtime.ContainerExited, now, 1),
		at("not asked", runtime.ContainerExited, time.Time{}, 2), at("created", runtime.ContainerCreated, time.Time{}, 3), at("runs", runtime.ContainerRunning, now, 4),
	}}
	before := slices.Clone(status.Containers)
	rest := m.SetAsideCutStarts(status)
	var left []string
	for _, c := range rest.Containers {
		left = append(left, c.ID.ID)
	}
	if want := []string{"ran", "not asked", "created", "runs"}; !slices.Equal(left, want) || !slices.Equal(status.Containers, before) {
		t.Errorf("left %q, want %q, and what was lent %+v", left, want, status.Containers)
	}
	asked, attempt := m.marks(StartRequested), m.Containers.get("app").nextAttempt
	if !slices.Equal(asked, []string{"created", "cut"}) || attempt != 7 {
		t.Errorf("asked %q, next attempt %d, want created and cut, and 7", asked, attempt)
	}
	if m.SetAsideCutStarts(rest) != rest || m.Instances.WithoutCutStarts(rest) != rest {
		t.Error("a status without cut starts is copied")
	}
}

// T2: the observed exit of a removed instance is returned, and its marks are
// dropped. Borrowed values are not modified.
func TestT2_ObservedEndIsReported(t *testing.T) {
	exited := func(name, id string, attempt uint32) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: id}, Attempt: attempt, State: runtime.ContainerExited}
	}
	m := New(&Limits{})
	m.See(&runtime.PodStatus{Containers: []runtime.ContainerStatus{
		exited("b", "b1", 1), exited("b", "b0", 0), exited("a", "a0", 0), exited("c", "c0", 0), exited("e", "e0", 0), exited("d", "d0", 0), exited("f", "f0", 0),
	}})
	marks := []Mark{PostStartPending, StopSignalled, PreStopRun, PreStopCompleted}
	for _, what := range marks {
		m.Instances.Mark("a0", what)
		m.Instances.Mark("c0", what)
	}
	m.Instances.SetMessage("a0", "bye")
	m.Instances.SetResources("a0", runtime.ContainerResources{})
	rest := &runtime.PodStatus{Containers: append(make([]runtime.ContainerStatus, 0, 9), exited("c", "c0", 0))}
	m.See(rest)
	for _, what := range marks {
		if got := m.marks(what); !slices.Equal(got, []string{"c0"}) {
			t.Errorf("mark %d of %q, want only of c0", what, got)
		}
	}
	if b := m.Containers.get("b"); len(m.Instances) != 1 || b.nextAttempt != 2 || !b.everStarted {
		t.Errorf("instances %+v, want only c0; b is %+v, want the next attempt 2 and that it has started", m.Instances, b)
	}
	var ids []string
	for _, c := range m.Containers.WithSeen(rest).Containers {
		ids = append(ids, c.ID.ID)
	}
	if !slices.Equal(ids, []string{"c0", "a0", "b1", "d0", "e0", "f0"}) || len(rest.Containers) != 1 || rest.Containers[:2][1].Name != "" {
		t.Errorf("with what was seen: %q", ids)
	}
}

// K7: a record that two concurrent calls load is applied once. The second call does not undo changes since the
// first one.
func TestK7_ARecordIsLoadedOnce(t *testing.T) {
	m := New(&Limits{})
	r := Record{Deadline: now, PostStartPending: []string{"1"}, PreStopCompleted: []string{"1"}}
	m.Restore(r)
	m.CallOff()
	m.Instances.Unmark("1", PostStartPending)
	m.Restore(r)
	if !m.deadline.IsZero() || m.Instances.Marked("1", PostStartPending|PreStopRun) {
		t.Errorf("deadline %v, marks %b, want none", m.deadline, m.Instances.get("1").marks)
	}
}

// A snapshot contains the recorded facts, in order, and shares no memory with them. It must be saved if
// it differs from the saved one, and not before the saved one was loaded.
func TestRecordOfAMemory(t *testing.T) {
	m := New(&Limits{})
	m.Containers.Used("app", 4)
	if _, news := m.Snapshot(); news {
		t.Error("news before the old record is known")
	}
	saved := Record{
		Deadline: now, NextAttempts: map[string]uint32{"app": 3, "b": 7}, EverStarted: []string{"app"}, PostStartPending: []string{"1"}, StartRequested: []string{"2"}, PreStopCompleted: []string{"3"},
		Exited:    []runtime.ContainerStatus{{Name: "b", ID: runtime.ContainerID{ID: "4"}}, {Name: "a", ID: runtime.ContainerID{ID: "5"}}, {Name: "c", ID: runtime.ContainerID{ID: "6"}}},
		Resources: map[string]runtime.ContainerResources{"1": {CPULimit: 9}},
	}
	m.Restore(saved)
	toSave, news := m.Snapshot()
	r := toSave.Record()
	if !news || r.NextAttempts["app"] != 5 || r.NextAttempts["b"] != 7 || r.Resources["1"].CPULimit != 9 || !r.Deadline.Equal(now) {
		t.Errorf("news %v, record %+v", news, r)
	}
	for i, got := range [][]string{r.EverStarted, r.PostStartPending, r.StartRequested, r.PreStopCompleted} {
		if want := [][]string{saved.EverStarted, saved.PostStartPending, saved.StartRequested, saved.PreStopCompleted}[i]; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if !m.Instances.Marked("3", PreStopRun) || len(r.Exited) != 3 || r.Exited[0].Name != "a" || r.Exited[2].Name != "c" {
		t.Errorf("exited %+v, handlers of %q", r.Exited, m.marks(PreStopRun))
	}
	m.Saved(toSave)
	m.Instances.Unmark("2", StartRequested)
	if _, news := m.Snapshot(); news {
		t.Error("that a start was answered is worth a write")
	}
	m.Instances.Mark("8", StartRequested)
	if _, news := m.Snapshot(); !news {
		t.Error("that a start is asked for is not worth a write")
	}
	m.Containers.Used("app", 5)
	if _, news := m.Snapshot(); !news || r.NextAttempts["app"] != 5 {
		t.Errorf("news %v, and the older record became %v", news, r.NextAttempts)
	}
	empty := New(&Limits{})
	empty.Restore(Record{})
	if _, news := empty.Snapshot(); news {
		t.Error("nothing is news")
	}
}

// A record that is loaded late does not replace newer facts.
func TestLateRecordReplacesNothing(t *testing.T) {
	instance := func(name, id string, attempt uint32, state runtime.ContainerState) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: id}, Attempt: attempt, State: state}
	}
	m := New(&Limits{})
	m.See(&runtime.PodStatus{Containers: []runtime.ContainerStatus{
		instance("a", "a1", 1, runtime.ContainerExited), instance("b", "b1", 1, runtime.ContainerExited),
	}})
	m.Restore(Record{
		Exited:  []runtime.ContainerStatus{instance("a", "a0", 0, runtime.ContainerExited), instance("c", "c0", 0, runtime.ContainerExited)},
		Started: []runtime.ContainerStatus{instance("b", "b1", 1, runtime.ContainerRunning), instance("d", "d0", 0, runtime.ContainerRunning)},
	})
	for name, want := range map[string]runtime.ContainerStatus{
		"a": instance("a", "a1", 1, runtime.ContainerExited), "b": instance("b", "b1", 1, runtime.ContainerExited),
		"c": instance("c", "c0", 0, runtime.ContainerExited), "d": instance("d", "d0", 0, runtime.ContainerRunning),
	} {
		if got := m.Containers.get(name).current; got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestMemoryKeepsState(t *testing.T) {
	m := New(&Limits{})
	instance := func(id string, state runtime.ContainerState, attempt uint32) *runtime.PodStatus {
		return &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: "app", ID: runtime.ContainerID{ID: id}, State: state, Attempt: attempt}}}
	}
	m.See(instance("0", runtime.ContainerExited, 0))
	m.Containers.SetEverStarted("app", false)
	m.See(instance("1", runtime.ContainerRunning, 1))
	if lost := m.Containers.WithSeen(&runtime.PodStatus{}).Containers; len(lost) != 0 || !m.Containers.get("app").everStarted {
		t.Errorf("given back %+v, which another has followed; ran %v", lost, m.Containers.get("app").everStarted)
	}
	for range 3 {
		m.Containers.NameReserved("app", 9)
	}
	m.Containers.Used("app", 7)
	if m.Containers.Used("app", 2); m.Containers.get("app").nextAttempt != 8 || m.Containers.get("app").nameReserved != 0 || !m.Containers.NameReserved("app", 1) {
		t.Errorf("next attempt %d, refused %d times", m.Containers.get("app").nextAttempt, m.Containers.get("app").nameReserved)
	}
	m.Evict(&apistatus.Problem{Reason: "first"}, false)
	m.Evict(nil, true)
	if m.Evict(&apistatus.Problem{Reason: "second"}, true); len(m.Disruption()) > 0 || m.Evicted().Reason != "first" {
		t.Errorf("evicted for %v", m.Evicted())
	}
	if m.RestartsAll(false, false) || !m.RestartsAll(true, false) || !m.RestartsAll(false, false) {
		t.Error("that all restart is not kept")
	}
	if m.RestartsAll(false, true) || m.RestartsAll(false, false) {
		t.Error("that all restart does not end")
	}
	if first := m.Kills.Begin("1", now); !m.Kills.Begin("1", now.Add(time.Hour)).Equal(first) || !m.Kills.Begin("1", now.Add(-time.Hour)).Before(first) {
		t.Error("the time to stop is put off, or not brought forward")
	}
	c := &v1.Container{Name: "app", Image: "a:1"}
	changed := []*v1.Container{{Name: "b", Image: "a:1"}, {Name: "app", Image: "a:2"}, c.DeepCopy()}
	changed[2].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	for _, other := range changed {
		if KeyOf(c) == KeyOf(other) {
			t.Errorf("%+v waits for the back-off of %+v", other, c)
		}
	}
}
