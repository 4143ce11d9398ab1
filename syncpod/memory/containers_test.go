package memory

import (
	"math"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

const (
	created = runtime.ContainerCreated
	running = runtime.ContainerRunning
	exited  = runtime.ContainerExited
	unknown = runtime.ContainerUnknown
)

// at returns an instance of the container app.
func at(id string, attempt uint32, state runtime.ContainerState) runtime.ContainerStatus {
	return runtime.ContainerStatus{Name: "app", ID: runtime.ContainerID{ID: id}, Attempt: attempt, State: state}
}

func statusOf(all ...runtime.ContainerStatus) *runtime.PodStatus {
	return &runtime.PodStatus{Containers: all}
}

// podOf returns a pod with the container app, which restarts by a policy.
func podOf(policy v1.RestartPolicy) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy, Containers: []v1.Container{{Name: "app"}}}}
}

// ids are the instances of a status with their states.
func ids(status *runtime.PodStatus) (all []string) {
	for _, c := range status.Containers {
		all = append(all, c.ID.ID+" "+c.State.String())
	}
	return all
}

// C2: attempts only increase.
func TestC2_Attempts(t *testing.T) {
	var c Containers
	for i, step := range []struct {
		do   func()
		want uint32
	}{
		{func() {}, 0},
		{func() { c.Attempt("app", 3) }, 3},
		{func() { c.Attempt("app", 2) }, 3},
		{func() { c.Used("app", 3) }, 4},
		{func() { c.Used("app", 1) }, 4},
		{func() { c.Scanned("app", 9, false) }, 4},
		{func() { c.Scanned("app", 6, true) }, 7},
		{func() { c.Used("other", 50) }, 7},
		{func() { c.Used("app", math.MaxUint32) }, math.MaxUint32},
	} {
		step.do()
		if got := c.Attempt("app", 0); got != step.want {
			t.Errorf("step %d: the next attempt is %d, want %d", i, got, step.want)
		}
	}
}

// A container's logs are scanned once, and a log shows that it was started.
func TestScannedLogs(t *testing.T) {
	for found, name := range map[bool]string{true: "a log", false: "no log"} {
		var c Containers
		c.NameReserved("app", 9)
		if c.LogsScanned("app") || c.EverStarted("app") {
			t.Errorf("%s: scanned before", name)
		}
		c.Scanned("app", 0, found)
		reserved := c.get("app").nameReserved == 1
		if !c.LogsScanned("app") || c.EverStarted("app") != found || reserved == found {
			t.Errorf("%s: %+v", name, c.get("app"))
		}
	}
	var c Containers
	if !c.SetEverStarted("app", true) || c.SetEverStarted("app", true) || !c.EverStarted("app") || !c.SetEverStarted("app", false) || c.EverStarted("app") {
		t.Error("that the container was started is news once")
	}
}

// Containers that run once: ephemeral containers, and containers that are not restarted after a failure.
func TestNoteRunOnce(t *testing.T) {
	pod := podOf(v1.RestartPolicyNever)
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	var c Containers
	c.NoteRunOnce(pod)
	if !c.get("app").once || !c.get("debug").once {
		t.Errorf("%+v", c)
	}
	pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	if c.NoteRunOnce(pod); c.get("app").once || !c.get("debug").once {
		t.Errorf("app %+v, debug %+v: want that only debug runs once", c.get("app"), c.get("debug"))
	}
	if c.NoteRunOnce(&v1.Pod{}); c.get("debug").once {
		t.Error("a container that the spec does not have any more runs once")
	}
}

// T2, C5: which instance is the current one, and which of its ends counts.
func TestKeep(t *testing.T) {
	said := func(c runtime.ContainerStatus, message string, code int32) runtime.ContainerStatus {
		c.Message, c.ExitCode = message, code
		return c
	}
	for name, tc := range map[string]struct {
		known       *runtime.ContainerStatus
		once        bool
		resetBefore uint32
		seen        runtime.ContainerStatus
		want        *runtime.ContainerStatus
		news        bool
	}{
		"the first end":                   {seen: at("1", 0, exited), want: new(at("1", 0, exited)), news: true},
		"the first run":                   {seen: at("1", 0, running)},
		"the only run":                    {once: true, seen: at("1", 0, running), want: new(at("1", 0, running)), news: true},
		"an older end":                    {known: new(at("1", 1, exited)), seen: at("0", 0, exited), want: new(at("1", 1, exited))},
		"another end of the attempt":      {known: new(at("1", 1, exited)), seen: at("2", 1, exited), want: new(at("2", 1, exited)), news: true},
		"a newer end":                     {known: new(at("1", 0, exited)), seen: at("2", 1, exited), want: new(at("2", 1, exited)), news: true},
		"a newer run":                     {known: new(at("1", 0, exited)), seen: at("2", 1, running), news: true},
		"the end of what was to run once": {known: new(at("1", 0, running)), once: true, seen: at("1", 0, exited), want: new(at("1", 0, exited)), news: true},
		"runs on":                         {known: new(at("1", 0, running)), once: true, seen: at("1", 0, running), want: new(at("1", 0, running))},
		"runs again after its end":        {known: new(at("1", 0, exited)), once: true, seen: at("1", 0, running), want: new(at("1", 0, exited))},
		"another end of the same":         {known: new(said(at("1", 0, exited), "a", 1)), seen: said(at("1", 0, exited), "b", 2), want: new(said(at("1", 0, exited), "a", 1))},
		"its message, read later":         {known: new(said(at("1", 0, exited), "", 1)), seen: said(at("1", 0, exited), "b", 2), want: new(said(at("1", 0, exited), "b", 1))},
		"from before all started over":    {resetBefore: 3, seen: at("1", 2, exited)},
		"from after all started over":     {resetBefore: 3, seen: at("1", 3, exited), want: new(at("1", 3, exited)), news: true},
	} {
		c := &Container{name: "app", current: tc.known, once: tc.once, resetBefore: tc.resetBefore, lost: true}
		var before runtime.ContainerStatus
		if tc.known != nil {
			before = *tc.known
		}
		news := c.keep(&tc.seen)
		if news != tc.news || (c.current == nil) != (tc.want == nil) || c.current != nil && *c.current != *tc.want {
			t.Errorf("%s: news %v, current %+v, want %v and %+v", name, news, c.current, tc.news, tc.want)
		}
		if tc.known != nil && *tc.known != before {
			t.Errorf("%s: an instance that a snapshot may have was changed to %+v", name, *tc.known)
		}
		if news && c.lost {
			t.Errorf("%s: what a status has is lost", name)
		}
	}
}

// C5: the answer to a start is kept at once if the container runs once.
func TestStarted(t *testing.T) {
	var c Containers
	if c.Started(at("1", 0, running)) || len(c) != 0 {
		t.Errorf("a container that nothing is known of is kept: %+v", c)
	}
	c.Used("app", 0)
	if c.Started(at("1", 0, running)) || c.get("app").current != nil {
		t.Error("a container that restarts is kept")
	}
	c.of("app").keep(new(at("0", 0, exited)))
	if c.Started(at("1", 1, running)) || c.get("app").current == nil {
		t.Error("the answer to a start of a container that restarts replaces its last end")
	}
	c.NoteRunOnce(podOf(v1.RestartPolicyNever))
	if !c.Started(at("1", 0, running)) || c.Started(at("1", 0, running)) || c.get("app").current.ID.ID != "1" {
		t.Error("the only run is not kept, or is news twice")
	}
}

// T6: an instance that runs once is lost when the newest status does not have it, and not when an
// older status does not.
func TestLost(t *testing.T) {
	var p Pod
	p.Containers.NoteRunOnce(podOf(v1.RestartPolicyNever))
	p.Containers.Started(at("1", 0, running))
	if got := p.Containers.WithSeen(statusOf()); len(got.Containers) != 0 {
		t.Errorf("lost before a status was observed: %v", ids(got))
	}
	p.Observe(statusOf())
	if got := p.Containers.WithSeen(statusOf()); len(got.Containers) != 0 {
		t.Errorf("lost by an older status: %v", ids(got))
	}
	p.See(statusOf())
	lost := p.Containers.WithSeen(statusOf())
	if len(lost.Containers) != 1 || lost.Containers[0].State != exited || lost.Containers[0].ExitCode != apistatus.LostExitCode {
		t.Errorf("%+v, want the lost instance", lost.Containers)
	}
	if got := p.Containers.WithSeen(nil); len(got.Containers) != 1 {
		t.Errorf("without a status: %+v", got)
	}
	if p.See(statusOf(at("1", 0, running))); p.Containers.get("app").lost {
		t.Error("lost although the newest status has it")
	}
}

// T2: a status is completed with observed exits that the runtime no longer has.
func TestWithSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		seen, given *runtime.PodStatus
		want        []string
	}{
		"nothing was seen":            {statusOf(), statusOf(), nil},
		"nothing was seen, no status": {statusOf(), nil, nil},
		"it is there":                 {statusOf(at("1", 0, exited)), statusOf(at("1", 0, exited)), []string{"1 exited"}},
		"it is missing":               {statusOf(at("1", 0, exited)), statusOf(), []string{"1 exited"}},
		"no status":                   {statusOf(at("1", 0, exited)), nil, []string{"1 exited"}},
		"another has followed":        {statusOf(at("1", 0, exited)), statusOf(at("2", 1, created)), []string{"2 created"}},
		"an older one is there":       {statusOf(at("2", 1, exited)), statusOf(at("1", 0, exited)), []string{"1 exited", "2 exited"}},
	} {
		var p Pod
		p.Observe(tc.seen)
		got := p.Containers.WithSeen(tc.given)
		before := 0
		if tc.given != nil {
			before = len(tc.given.Containers)
		}
		if same := len(tc.want) == before; same != (got == tc.given) || got != nil && !slices.Equal(ids(got), tc.want) {
			t.Errorf("%s: %+v, want %v, and a copy only if something is added", name, got, tc.want)
		}
	}
}

// T2: an instance in an unknown state has the start time that was seen, and keeps its own.
func TestWithStarts(t *testing.T) {
	began := func(c runtime.ContainerStatus, at time.Time) runtime.ContainerStatus {
		c.StartedAt = at
		return c
	}
	var p Pod
	p.Observe(statusOf(began(at("1", 0, exited), now)))
	later := now.Add(time.Hour)
	for name, tc := range map[string]struct{ given, want runtime.ContainerStatus }{
		"the start time is lost": {at("1", 0, unknown), began(at("1", 0, unknown), now)},
		"it is there":            {began(at("1", 0, unknown), later), began(at("1", 0, unknown), later)},
		"the state is known":     {at("1", 0, created), at("1", 0, created)},
		"another instance":       {at("2", 0, unknown), at("2", 0, unknown)},
		"nothing is known of it": {runtime.ContainerStatus{Name: "b", State: unknown}, runtime.ContainerStatus{Name: "b", State: unknown}},
	} {
		given := statusOf(tc.given, tc.given)
		got := p.Containers.WithStarts(given)
		if got.Containers[0] != tc.want || got.Containers[1] != tc.want || given.Containers[0] != tc.given {
			t.Errorf("%s: %+v, want %+v, and what was given %+v", name, got.Containers, tc.want, given.Containers[0])
		}
		if (got == given) != (tc.given == tc.want) {
			t.Errorf("%s: a copy only of what changes", name)
		}
	}
}

// C5: a run that was observed after the status was read keeps the plan from another run.
func TestHasRunSince(t *testing.T) {
	for name, tc := range map[string]struct {
		seen, decided *runtime.PodStatus
		want          bool
	}{
		"nothing has run":                {statusOf(), statusOf(), false},
		"nothing has run, one is there":  {statusOf(), statusOf(at("1", 0, created)), false},
		"it was created, and has run":    {statusOf(at("1", 0, exited)), statusOf(at("1", 0, created)), true},
		"it has run in that status":      {statusOf(at("1", 0, exited)), statusOf(at("1", 0, exited)), false},
		"it is not in that status":       {statusOf(at("1", 0, exited)), statusOf(), true},
		"another has followed":           {statusOf(at("1", 0, exited)), statusOf(at("2", 1, created)), false},
		"another of the same number":     {statusOf(at("1", 0, exited)), statusOf(at("2", 0, exited)), true},
		"an older one is in that status": {statusOf(at("2", 1, exited)), statusOf(at("1", 0, exited)), true},
	} {
		var p Pod
		p.Observe(tc.seen)
		if got := p.Containers.HasRunSince(tc.decided, "app"); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// KEP-5532: an instance that was removed so that all starts over is forgotten for good, and one
// that followed it is not.
func TestForgetRun(t *testing.T) {
	var p Pod
	first, second := at("1", 4, exited), at("2", 5, exited)
	p.See(statusOf(first))
	p.Instances.Mark("x", PreStopRun)
	p.Containers.of("app").lost = true
	if p.Containers.ForgetRun(&first); p.Containers.get("app").current != nil || p.Containers.get("app").lost {
		t.Errorf("it is still known: %+v", p.Containers.get("app"))
	}
	if p.Observe(statusOf(first)) || p.Containers.get("app").current != nil {
		t.Error("a late status brings it back")
	}
	if !p.Observe(statusOf(second)) || p.Containers.get("app").current.ID.ID != "2" {
		t.Error("the next instance is not kept")
	}
	p.Containers.ForgetRun(&first)
	if p.Containers.get("app").current == nil || p.Containers.get("app").resetBefore != 5 {
		t.Errorf("%+v: another instance was forgotten", p.Containers.get("app"))
	}
	p.Containers.ForgetRun(&second)
	p.Containers.ForgetRun(&second)
	if p.Containers.get("app").current != nil {
		t.Error("a container that was forgotten twice is known")
	}
	p.Containers.ForgetRun(new(at("0", 1, exited)))
	if got := p.Containers.get("app").resetBefore; got != 6 {
		t.Errorf("reset before %d, want 6", got)
	}
}

// Attempts and started containers count even in an old status.
func TestObserve(t *testing.T) {
	cut := at("cut", 3, exited)
	for name, tc := range map[string]struct {
		seen    *runtime.PodStatus
		next    uint32
		started bool
		news    bool
	}{
		"created":             {statusOf(at("1", 1, created)), 2, false, false},
		"unknown":             {statusOf(at("1", 1, unknown)), 2, false, false},
		"running":             {statusOf(at("1", 1, running)), 2, true, false},
		"exited":              {statusOf(at("1", 1, exited)), 2, true, true},
		"exited, and a newer": {statusOf(at("2", 2, running), at("1", 1, exited)), 3, true, false},
		"its start was cut":   {statusOf(cut), 4, false, false},
	} {
		var p Pod
		p.Instances.Mark("cut", StartRequested)
		if news := p.Observe(tc.seen); news != tc.news || p.Containers.get("app").nextAttempt != tc.next || p.Containers.EverStarted("app") != tc.started {
			t.Errorf("%s: news %v, %+v; want %v, next attempt %d, started %v", name, news, p.Containers.get("app"), tc.news, tc.next, tc.started)
		}
	}
}
