package syncpod

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// marks returns the instances with a mark.
func (m *memory) marks(what mark) (ids []string) {
	for _, inst := range m.instances {
		if inst.marks&what != 0 {
			ids = append(ids, inst.id)
		}
	}
	return ids
}

// F14: of the instances whose start was cut short only the number counts. Others,
// and those that ran, are as they were.
func TestF14_CutStarts(t *testing.T) {
	at := func(id string, state runtime.ContainerState, started time.Time, attempt uint32) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: "app", ID: runtime.ContainerID{ID: id}, State: state, StartedAt: started, Attempt: attempt}
	}
	m := newMemory("u", &Config{})
	for _, id := range []string{"cut", "ran", "created", "runs", "gone"} {
		m.mark(id, startRequested)
	}
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{
		at("cut", runtime.ContainerExited, time.Time{}, 6), at("ran", runtime.ContainerExited, now, 1),
		at("not asked", runtime.ContainerExited, time.Time{}, 2), at("created", runtime.ContainerCreated, time.Time{}, 3), at("runs", runtime.ContainerRunning, now, 4),
	}}
	before := slices.Clone(status.Containers)
	rest := m.setAsideCutStarts(status)
	var left []string
	for _, c := range rest.Containers {
		left = append(left, c.ID.ID)
	}
	if want := []string{"ran", "not asked", "created", "runs"}; !slices.Equal(left, want) || !slices.Equal(status.Containers, before) {
		t.Errorf("left %q, want %q, and what was lent %+v", left, want, status.Containers)
	}
	asked, attempt := m.marks(startRequested), m.container("app").nextAttempt
	if !slices.Equal(asked, []string{"created", "cut"}) || attempt != 7 {
		t.Errorf("asked %q, next attempt %d, want created and cut, and 7", asked, attempt)
	}
}

// T2: what was seen of an instance that is gone is given back, and what is noted of it
// dropped; nothing that was lent is written to.
func TestT2_WhatWasSeen(t *testing.T) {
	exited := func(name, id string, attempt uint32) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: id}, Attempt: attempt, State: runtime.ContainerExited}
	}
	m := newMemory("u", &Config{})
	m.see(&runtime.PodStatus{Containers: []runtime.ContainerStatus{
		exited("b", "b1", 1), exited("b", "b0", 0), exited("a", "a0", 0), exited("c", "c0", 0), exited("e", "e0", 0), exited("d", "d0", 0), exited("f", "f0", 0),
	}})
	marks := []mark{postStartPending, stopSignalled, preStopRun, preStopCompleted}
	for _, what := range marks {
		m.mark("a0", what)
		m.mark("c0", what)
	}
	m.setMessage("a0", "bye")
	m.setResources("a0", runtime.ContainerResources{})
	rest := &runtime.PodStatus{Containers: append(make([]runtime.ContainerStatus, 0, 9), exited("c", "c0", 0))}
	m.see(rest)
	for _, what := range marks {
		if got := m.marks(what); !slices.Equal(got, []string{"c0"}) {
			t.Errorf("mark %d of %q, want only of c0", what, got)
		}
	}
	if b := m.container("b"); m.instances.get("a0") != (instance{id: "a0"}) || b.nextAttempt != 2 || !b.everStarted {
		t.Errorf("a0 is %+v, want nothing; b is %+v, want the next attempt 2 and that it has started", m.instances.get("a0"), b)
	}
	var ids []string
	for _, c := range m.withSeen(rest).Containers {
		ids = append(ids, c.ID.ID)
	}
	if !slices.Equal(ids, []string{"c0", "a0", "b1", "d0", "e0", "f0"}) || len(rest.Containers) != 1 || rest.Containers[:2][1].Name != "" {
		t.Errorf("with what was seen: %q", ids)
	}
}

// K7: a record that is loaded by two calls at a time counts once. What has become of it since
// the first of them had it is not undone by the second.
func TestK7_ARecordIsLoadedOnce(t *testing.T) {
	m := newMemory("u", &Config{})
	r := Record{Deadline: now, PostStartPending: []string{"1"}, PreStopCompleted: []string{"1"}}
	m.restore(r)
	m.callOff(t.Context())
	m.unmark("1", postStartPending)
	m.restore(r)
	if !m.deadline.IsZero() || m.instances.has("1", postStartPending|preStopRun) {
		t.Errorf("deadline %v, marks %b, want none", m.deadline, m.instances.get("1").marks)
	}
}

// A record holds what was noted, in order, and shares nothing with it. It is news if
// it says more than the one saved, and none before that was loaded.
func TestRecordOfAMemory(t *testing.T) {
	m := newMemory("u", &Config{})
	m.used("app", 4)
	if _, news := m.toRecord(); news {
		t.Error("news before the old record is known")
	}
	saved := Record{
		Deadline: now, NextAttempts: map[string]uint32{"app": 3, "b": 7}, EverStarted: []string{"app"}, PostStartPending: []string{"1"}, StartRequested: []string{"2"}, PreStopCompleted: []string{"3"},
		Exited:    []runtime.ContainerStatus{{Name: "b", ID: runtime.ContainerID{ID: "4"}}, {Name: "a", ID: runtime.ContainerID{ID: "5"}}, {Name: "c", ID: runtime.ContainerID{ID: "6"}}},
		Resources: map[string]runtime.ContainerResources{"1": {CPULimit: 9}},
	}
	m.restore(saved)
	toSave, news := m.toRecord()
	r := toSave.record()
	if !news || r.NextAttempts["app"] != 5 || r.NextAttempts["b"] != 7 || r.Resources["1"].CPULimit != 9 || !r.Deadline.Equal(now) {
		t.Errorf("news %v, record %+v", news, r)
	}
	for i, got := range [][]string{r.EverStarted, r.PostStartPending, r.StartRequested, r.PreStopCompleted} {
		if want := [][]string{saved.EverStarted, saved.PostStartPending, saved.StartRequested, saved.PreStopCompleted}[i]; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if !m.marked("3", preStopRun) || len(r.Exited) != 3 || r.Exited[0].Name != "a" || r.Exited[2].Name != "c" {
		t.Errorf("exited %+v, handlers of %q", r.Exited, m.marks(preStopRun))
	}
	m.recorded(toSave)
	m.unmark("2", startRequested)
	if _, news := m.toRecord(); news {
		t.Error("that a start was answered is worth a write")
	}
	m.mark("8", startRequested)
	if _, news := m.toRecord(); !news {
		t.Error("that a start is asked for is not worth a write")
	}
	m.used("app", 5)
	if _, news := m.toRecord(); !news || r.NextAttempts["app"] != 5 {
		t.Errorf("news %v, and the older record became %v", news, r.NextAttempts)
	}
	empty := newMemory("v", &Config{})
	empty.restore(Record{})
	if _, news := empty.toRecord(); news {
		t.Error("nothing is news")
	}
}

// A record that could be loaded late does not replace what is known by then.
func TestLateRecordReplacesNothing(t *testing.T) {
	instance := func(name, id string, attempt uint32, state runtime.ContainerState) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: id}, Attempt: attempt, State: state}
	}
	m := newMemory("u", &Config{})
	m.see(&runtime.PodStatus{Containers: []runtime.ContainerStatus{
		instance("a", "a1", 1, runtime.ContainerExited), instance("b", "b1", 1, runtime.ContainerExited),
	}})
	m.restore(Record{
		Exited:  []runtime.ContainerStatus{instance("a", "a0", 0, runtime.ContainerExited), instance("c", "c0", 0, runtime.ContainerExited)},
		Started: []runtime.ContainerStatus{instance("b", "b1", 1, runtime.ContainerRunning), instance("d", "d0", 0, runtime.ContainerRunning)},
	})
	for name, want := range map[string]runtime.ContainerStatus{
		"a": instance("a", "a1", 1, runtime.ContainerExited), "b": instance("b", "b1", 1, runtime.ContainerExited),
		"c": instance("c", "c0", 0, runtime.ContainerExited), "d": instance("d", "d0", 0, runtime.ContainerRunning),
	} {
		if got := m.container(name).current; got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// W11: a pod that no work was done on is not remembered because it was read.
func TestW11_OnlyKnownPodsAreObserved(t *testing.T) {
	s := &Syncer{}
	s.known.config = &s.config
	s.Observe(t.Context(), &runtime.PodStatus{UID: "u", Containers: []runtime.ContainerStatus{{Name: "app", State: runtime.ContainerExited}}})
	if s.known.get("u") != nil {
		t.Error("it is remembered")
	}
}

func TestWhatAMemoryKeeps(t *testing.T) {
	m := newMemory("u", &Config{})
	instance := func(id string, state runtime.ContainerState, attempt uint32) *runtime.PodStatus {
		return &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: "app", ID: runtime.ContainerID{ID: id}, State: state, Attempt: attempt}}}
	}
	m.see(instance("0", runtime.ContainerExited, 0))
	m.setEverStarted("app", false)
	m.see(instance("1", runtime.ContainerRunning, 1))
	if lost := m.withSeen(&runtime.PodStatus{}).Containers; len(lost) != 0 || !m.container("app").everStarted {
		t.Errorf("given back %+v, which another has followed; ran %v", lost, m.container("app").everStarted)
	}
	for range 3 {
		m.nameReserved("app", 9)
	}
	m.used("app", 7)
	if m.used("app", 2); m.container("app").nextAttempt != 8 || m.container("app").nameReserved != 0 || !m.nameReserved("app", 1) {
		t.Errorf("next attempt %d, refused %d times", m.container("app").nextAttempt, m.container("app").nameReserved)
	}
	m.evict(&apistatus.Problem{Reason: "first"}, false)
	m.evict(nil, true)
	if m.evict(&apistatus.Problem{Reason: "second"}, true); len(m.disruption()) > 0 || m.evictedFor().Reason != "first" {
		t.Errorf("evicted for %v", m.evictedFor())
	}
	if m.restartsAll(false, false) || !m.restartsAll(true, false) || !m.restartsAll(false, false) {
		t.Error("that all restart is not kept")
	}
	if m.restartsAll(false, true) || m.restartsAll(false, false) {
		t.Error("that all restart does not end")
	}
	if first := m.kills.begin("1", now); !m.kills.begin("1", now.Add(time.Hour)).Equal(first) || !m.kills.begin("1", now.Add(-time.Hour)).Before(first) {
		t.Error("the time to stop is put off, or not brought forward")
	}
	c := &v1.Container{Name: "app", Image: "a:1"}
	changed := []*v1.Container{{Name: "b", Image: "a:1"}, {Name: "app", Image: "a:2"}, c.DeepCopy()}
	changed[2].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	for _, other := range changed {
		if keyOf(c) == keyOf(other) {
			t.Errorf("%+v waits for the back-off of %+v", other, c)
		}
	}
}

// E4: a delivery that fails is tried once in a call, and again in the next.
func TestE4_FailedDeliveryIsTriedOncePerCall(t *testing.T) {
	box, calls := new(statusBox), 0
	box.replace(&v1.PodStatus{}, func(*v1.PodStatus) v1.PodStatus { return v1.PodStatus{Phase: v1.PodPending} })
	fail := func(*v1.PodStatus) error { calls++; return errors.New("away") }
	for want := range 3 {
		box.retry()
		box.deliver(t.Context(), fail)
		box.deliver(t.Context(), fail)
		if calls != want+1 || box.undelivered() == nil {
			t.Errorf("tried %d times in %d calls, %v", calls, want+1, box.undelivered())
		}
	}
}

// E4: a status is the sink's to keep, and none is delivered when there is no time.
func TestE4_WhatIsDelivered(t *testing.T) {
	box := new(statusBox)
	box.replace(&v1.PodStatus{}, func(*v1.PodStatus) v1.PodStatus {
		return v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady}}}
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	box.deliver(over, func(*v1.PodStatus) error { t.Error("delivered after the end"); return nil })
	box.retry()
	c := Config{Sink: StatusSinkFunc(func(_ context.Context, _ *v1.Pod, s v1.PodStatus) error { s.Conditions[0].Type = "x"; return nil })}
	box.deliver(t.Context(), func(s *v1.PodStatus) error { return c.tellSink(t.Context(), &v1.Pod{}, s) })
	if box.undelivered() != nil || box.last.Conditions[0].Type != v1.PodReady {
		t.Errorf("undelivered: %v; the status became %+v", box.undelivered(), box.last)
	}
}

// messagesFunc is a function that reads messages.
type messagesFunc func(c *runtime.ContainerStatus) string

func (f messagesFunc) TerminationMessage(_ *v1.Pod, c *runtime.ContainerStatus) (string, error) {
	return f(c), nil
}

// What is added to a status is added to a copy: messages, read once of what has
// exited, and resources of what runs and does not tell its own.
func TestWhatIsAddedToAStatus(t *testing.T) {
	read := 0
	s := &Syncer{config: Config{Deps: Dependencies{Messages: messagesFunc(func(c *runtime.ContainerStatus) string { read++; return "bye " + c.Name })}}}
	m := newMemory("u", &s.config)
	given := runtime.ContainerResources{CPULimit: 1}
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{
		{Name: "ended", ID: runtime.ContainerID{ID: "1"}, State: runtime.ContainerExited}, {Name: "runs", ID: runtime.ContainerID{ID: "2"}, State: runtime.ContainerRunning},
		{Name: "tells", ID: runtime.ContainerID{ID: "3"}, State: runtime.ContainerRunning, Resources: &given},
	}}
	for _, id := range []string{"1", "2", "3"} {
		m.setResources(id, runtime.ContainerResources{CPULimit: 2})
	}
	before := slices.Clone(status.Containers)
	var full *runtime.PodStatus
	for range 2 {
		full = m.withResources(s.withMessages(&v1.Pod{}, m, status))
	}
	if c := full.Containers; read != 1 || c[0].Message != "bye ended" || c[1].Message != "" || c[0].Resources != nil || c[1].Resources.CPULimit != 2 || c[2].Resources.CPULimit != 1 {
		t.Errorf("read %d times, %+v", read, c)
	}
	if !slices.Equal(status.Containers, before) {
		t.Errorf("what was lent became %+v", status.Containers)
	}
}
