package syncpod

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
)

// W11: a pod that no work was done on is not remembered because it was read.
func TestW11_OnlyKnownPodsAreObserved(t *testing.T) {
	s := &Syncer{}
	s.Observe(t.Context(), &runtime.PodStatus{UID: "u", Containers: []runtime.ContainerStatus{{Name: "app", State: runtime.ContainerExited}}})
	if s.known.get("u") != nil {
		t.Error("it is remembered")
	}
}

// T8: a status without a time is the newest, and of two exits the status that was read later counts.
func TestT8_NewestExit(t *testing.T) {
	m, at := newPodMemory("u", nil), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	exited := func(name string, at time.Time) *runtime.PodStatus {
		return &runtime.PodStatus{UID: "u", ObservedAt: at, Containers: []runtime.ContainerStatus{{Name: name, State: runtime.ContainerExited}}}
	}
	later := exited("b", at.Add(time.Second))
	m.observe(later)
	m.observe(exited("a", at))
	if got := m.observedAfter(&runtime.PodStatus{ObservedAt: at}); got != later {
		t.Errorf("%+v, want the later one", got)
	}
	for what, status := range map[string]*runtime.PodStatus{"itself": later, "a status without a time": {}} {
		if got := m.observedAfter(status); got != nil {
			t.Errorf("after %s: %+v, want none", what, got)
		}
	}
}

// E4: a delivery that fails is tried once in a call, and again in the next.
func TestE4_FailedDeliveryIsTriedOncePerCall(t *testing.T) {
	box, calls := new(statusBox), 0
	box.replace(&v1.PodStatus{}, func(*v1.PodStatus) v1.PodStatus { return v1.PodStatus{Phase: v1.PodPending} })
	fail := func(*v1.PodStatus) error { calls++; return errors.New("unavailable") }
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
func TestE4_DeliveredPods(t *testing.T) {
	box := new(statusBox)
	box.replace(&v1.PodStatus{}, func(*v1.PodStatus) v1.PodStatus {
		return v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady}}}
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	box.deliver(over, func(*v1.PodStatus) error { t.Error("delivered after the end"); return nil })
	box.retry()
	c := Config{Sink: StatusSinkFunc(func(_ context.Context, _ *v1.Pod, s v1.PodStatus) error { s.Conditions[0].Type = "x"; return nil })}
	box.deliver(t.Context(), func(s *v1.PodStatus) error { return copies{c.Sink}.KeepPodStatus(t.Context(), &v1.Pod{}, s) })
	if box.undelivered() != nil || box.last.Conditions[0].Type != v1.PodReady {
		t.Errorf("undelivered: %v; the status became %+v", box.undelivered(), box.last)
	}
}

// messagesFunc is a function that reads messages.
type messagesFunc func(c *runtime.ContainerStatus) string

func (f messagesFunc) TerminationMessage(_ *v1.Pod, c *runtime.ContainerStatus) (string, error) {
	return f(c), nil
}

// Details are added to a copy of the status: the messages of exited containers, which are read once, and the
// resources of running containers that do not report them.
func TestWhatIsAddedToAStatus(t *testing.T) {
	read := 0
	s := &Syncer{config: Config{Parts: Parts{Messages: messagesFunc(func(c *runtime.ContainerStatus) string { read++; return "bye " + c.Name })}}}
	m := newPodMemory("u", &memory.Limits{})
	given := runtime.ContainerResources{CPULimit: 1}
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{
		{Name: "ended", ID: runtime.ContainerID{ID: "1"}, State: runtime.ContainerExited}, {Name: "runs", ID: runtime.ContainerID{ID: "2"}, State: runtime.ContainerRunning},
		{Name: "tells", ID: runtime.ContainerID{ID: "3"}, State: runtime.ContainerRunning, Resources: &given},
	}}
	for _, id := range []string{"1", "2", "3"} {
		m.Do(func(p *memory.Pod) { p.Instances.SetResources(id, runtime.ContainerResources{CPULimit: 2}) })
	}
	before := slices.Clone(status.Containers)
	var full *runtime.PodStatus
	for range 2 {
		full = s.withMessages(&v1.Pod{}, m, status)
		full = m.pod.Instances.WithResources(full)
	}
	if c := full.Containers; read != 1 || c[0].Message != "bye ended" || c[1].Message != "" || c[0].Resources != nil || c[1].Resources.CPULimit != 2 || c[2].Resources.CPULimit != 1 {
		t.Errorf("read %d times, %+v", read, c)
	}
	if !slices.Equal(status.Containers, before) {
		t.Errorf("what was lent became %+v", status.Containers)
	}
}

// While a message is read for the status of one observation, a newer one may be reported, and the next one be observed. The status
// that is reported then is not older than the reported one.
func TestT12_OlderStatusWaitsForItsMessage(t *testing.T) {
	began := time.Now()
	at := func(after time.Duration, app runtime.ContainerState) *runtime.PodStatus {
		return &runtime.PodStatus{UID: "u", ObservedAt: began.Add(after), Containers: []runtime.ContainerStatus{
			{Name: "app", ID: runtime.ContainerID{ID: "1"}, State: app}, {Name: "ended", ID: runtime.ContainerID{ID: "2"}, State: runtime.ContainerExited},
		}}
	}
	m := newPodMemory("u", &memory.Limits{})
	var r *report
	s := &Syncer{config: Config{Observer: NopObserver{}, Parts: Parts{
		Probes: NoProbes{}, StatusKeeper: nopSink{},
		Messages: messagesFunc(func(*runtime.ContainerStatus) string {
			r.update(t.Context(), at(2, runtime.ContainerExited), statusFacts{})
			m.observe(at(3, runtime.ContainerExited))
			return "bye"
		}),
	}}}
	r = s.newReport(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "ended"}}}}, m)
	r.update(t.Context(), at(0, runtime.ContainerRunning), statusFacts{})
	m.observe(at(1, runtime.ContainerRunning))
	r.reportNewest(t.Context(), false)
	if got := r.status.ObservedAt; got.Before(began.Add(2)) {
		t.Errorf("the reported status is %v older than the one before", began.Add(2).Sub(got))
	}
	r.deliveries.Wait()
}
