package simulation

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func call(m critest.Method, second int, change func(*critest.Call)) critest.Call {
	c := critest.Call{Method: m, PodUID: "u", Container: "c0", ContainerID: "a", SandboxID: "s", Start: at(second), End: at(second)}
	change(&c)
	return c
}

func unchanged(*critest.Call) {}

func terminated(id string, code int32) v1.PodStatus {
	end := &v1.ContainerStateTerminated{ExitCode: code, ContainerID: id}
	return v1.PodStatus{Phase: v1.PodFailed, ContainerStatuses: []v1.ContainerStatus{{Name: "c0", State: v1.ContainerState{Terminated: end}}}}
}

func reportAt(tr *trace, second int, s v1.PodStatus) {
	tr.statuses = append(tr.statuses, published{"u", at(second), s})
}

func isRunning(id string) v1.PodStatus {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	return v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "c0", ContainerID: id, State: running}}}
}

// one is a trace of one pod without any call or report.
func one() *trace {
	tr := newTrace()
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c0"}}}}
	tr.pods = map[types.UID]*podSpan{"u": {kind: kinds[0], owner: newOwner("podsync"), source: "file", pod: p}}
	tr.agents = []*agentSpan{{owner: "podsync", span: span{from: at(0)}, told: map[string]time.Time{"file": at(0)}, readable: at(0)}}
	return tr
}

func two(tr *trace) {
	tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", Started: at(1), Ended: at(9)}}
	tr.instances["b"] = &instance{Process: critest.Process{ContainerID: "b", PodUID: "u", Container: "c0", Started: at(5)}, order: 1}
}

// dark is a node on which objects are unavailable soon after its begin, and whose pod restarts.
func dark(tr *trace) {
	tr.pods["u"].needs, tr.pods["u"].kind = true, kindNamed("crash")
	tr.instances["a"].Ended, tr.dark, tr.end = at(4), at(3), at(2000)
	if tr.instances["b"].Started.Before(at(1000)) {
		tr.instances["b"].Ended = at(1000)
	}
}

// job is a pod that may not restart, in which two were started one after the other while
// there was an agent.
func job(tr *trace) {
	two(tr)
	tr.instances["a"].Ended = at(2)
	tr.pods["u"].pod.Spec.RestartPolicy = v1.RestartPolicyNever
	tr.agents = []*agentSpan{{owner: "podsync", span: span{from: at(0), to: at(4)}}, {owner: "podsync", span: span{from: at(4)}}}
}

// A start that no agent could know to have happened is no run.
func TestUnknownStartIsNoRun(t *testing.T) {
	start := func(change func(*critest.Call)) critest.Journal {
		return critest.Journal{call(critest.StartContainer, 1, change)}
	}
	for what, calls := range map[string]critest.Journal{
		"no answer yet": start(func(c *critest.Call) { c.End = time.Time{} }),
		"an error":      start(func(c *critest.Call) { c.Err = context.Canceled }),
		"the caller was killed before the answer": start(func(c *critest.Call) { c.End = at(5) }),
		"answered as the agent ended":             start(func(c *critest.Call) { c.End = at(4) }),
		"of another":                              start(func(c *critest.Call) { c.ContainerID = "b" }),
	} {
		tr := one()
		job(tr)
		tr.calls = calls
		reportAt(tr, 6, isRunning("x://a")) // too late
		for _, broken := range tr.result(0, false).Broken {
			if strings.HasPrefix(broken, "C5") {
				t.Errorf("%s: %s", what, broken)
			}
		}
	}
}

// A guess at the end of one run is none at the end of the run before, though the status
// between them counts a restart that did not come.
func TestGuessAtAnotherEnd(t *testing.T) {
	tr := one()
	tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", Started: at(1), Ended: at(2), ExitCode: 1}}
	seen, guess := terminated("x://a", 1).ContainerStatuses[0].State, terminated("", 137).ContainerStatuses[0].State
	state := func(now, last v1.ContainerState) v1.PodStatus {
		return v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "c0", RestartCount: 2, State: now, LastTerminationState: last}}}
	}
	reportAt(tr, 3, state(guess, seen)) // of attempt 1, which is in an unknown state
	reportAt(tr, 4, state(v1.ContainerState{Running: &v1.ContainerStateRunning{}}, guess))
	for _, broken := range tr.result(0, false).Broken {
		if strings.HasPrefix(broken, "T2") {
			t.Error(broken)
		}
	}
}

// pulls makes each of some containers, which mount one image, pull it so many times within a minute.
func pulls(tr *trace, containers, times int) {
	p := tr.pods["u"].pod
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:1"}}}}
	p.Spec.Containers = nil
	for range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{VolumeMounts: []v1.VolumeMount{{Name: "data"}}})
	}
	for n := range containers * times {
		tr.calls = append(tr.calls, call(critest.PullImage, 1+n, func(c *critest.Call) { c.Container, c.Image = "", "data:1" }))
	}
}

// Each of these is no break of the rule that it is listed under.
func TestRulesKnowBetter(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	for _, tt := range []struct {
		rule, what string
		happens    func(*trace)
	}{
		{"T2", "a guess at the run after one that the runtime refused to start", func(tr *trace) {
			tr.calls = critest.Journal{call(critest.StartContainer, 1, func(c *critest.Call) { c.Err = context.Canceled })}
			refused, guess := terminated("x://a", 128).ContainerStatuses[0].State, terminated("", 137).ContainerStatuses[0].State
			for n, now := range []v1.ContainerState{running, {Waiting: &v1.ContainerStateWaiting{}}, guess} {
				reportAt(tr, 2+n, v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c0", RestartCount: 1, State: now, LastTerminationState: refused}}})
			}
		}},
		{"B2", "two containers that mount an image and cannot start", func(tr *trace) { pulls(tr, 2, mostTries) }},
		{"S3", "a pod that has failed because its container could not be started", func(tr *trace) {
			tr.calls = critest.Journal{call(critest.StartContainer, 1, func(c *critest.Call) { c.Err = context.Canceled })}
			reportAt(tr, 3, terminated("x://a", 128))
		}},
		{"S3", "a pod that is over by an init container in an unknown state, which is seen to have succeeded then", func(tr *trace) {
			tr.instances["i"] = &instance{Process: critest.Process{ContainerID: "i", PodUID: "u", Container: "i0", Started: at(1), Ended: at(4)}}
			for second, end := range map[int]*v1.ContainerStateTerminated{3: {ExitCode: 137}, 5: {ContainerID: "x://i"}} {
				tr.statuses = append(tr.statuses, published{"u", at(second), v1.PodStatus{
					Phase: v1.PodFailed, InitContainerStatuses: []v1.ContainerStatus{{Name: "i0", State: v1.ContainerState{Terminated: end}}},
				}})
			}
			slices.SortFunc(tr.statuses, func(a, b published) int { return a.at.Compare(b.at) })
		}},
		{"S4", "a sandbox without an address whose pod has had its time", func(tr *trace) {
			limit := int64(40)
			tr.pods["u"].pod.UID, tr.pods["u"].pod.Spec.ActiveDeadlineSeconds = "u", &limit
			reportAt(tr, 1, v1.PodStatus{Phase: v1.PodPending})
			tr.calls = critest.Journal{call(critest.RunPodSandbox, 40, func(c *critest.Call) { c.Fault = "before: late address" }), call(critest.StopPodSandbox, 41, unchanged)}
		}},
		{"P3", "an end that is reported after the next sandbox was created", func(tr *trace) {
			two(tr)
			tr.end, tr.instances["b"].Ended = at(1500), at(1000)
			tr.calls = critest.Journal{call(critest.RunPodSandbox, 1001, func(c *critest.Call) { c.End = at(1020) })}
			reportAt(tr, 1020, terminated("x://b", 0))
		}},
	} {
		tr := one()
		tt.happens(tr)
		for _, broken := range tr.result(0, false).Broken {
			if strings.HasPrefix(broken, tt.rule) {
				t.Errorf("%s: %s", tt.what, broken)
			}
		}
	}
}

// A probe that hangs may be answered after one that has begun later.
func TestKeepFirst(t *testing.T) {
	times := map[string]time.Time{}
	for _, second := range []int{20, 13, 17} {
		keepFirst(times, "a", at(second))
	}
	if got := times["a"]; !got.Equal(at(13)) {
		t.Errorf("first at %v, want %v", got, at(13))
	}
}

// The rows that a rule names are in the catalogue of failures.
func TestRulesNameRows(t *testing.T) {
	catalogue, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "FAILURES.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		rows, _, _ := strings.Cut(rule.name, ": ")
		for row := range strings.SplitSeq(rows, ", ") {
			if !regexp.MustCompile(`(?m)^\| ([A-Z]\d+, )*` + row + `[ ,]`).Match(catalogue) {
				t.Errorf("%s: docs/FAILURES.md has no row %s", rule.name, row)
			}
		}
	}
}

// Each of these breaks the rule that it is listed under, and is noticed.
func TestRulesNotice(t *testing.T) {
	answered := critest.Journal{call(critest.StartContainer, 1, unchanged)}
	for _, tt := range []struct {
		rule, what string
		breaks     func(*trace)
	}{
		{"C1", "two run", two},
		{"R1", "a container is not restarted", func(tr *trace) { two(tr); tr.pods["u"].needs = true; dark(tr) }},
		{"R1", "a container is restarted late", func(tr *trace) {
			two(tr)
			tr.instances["b"].Started = at(1000)
			dark(tr)
		}},
		{"B6", "a container waits for a pull", func(tr *trace) {
			two(tr)
			tr.instances["a"].Ended, tr.instances["b"].Started, tr.slow["u"], tr.end = at(9), at(200), at(5), at(2000)
		}},
		{"B6", "a container waits for a handler", func(tr *trace) {
			two(tr)
			tr.instances["a"].Ended, tr.instances["b"].Started, tr.pods["u"].hooked, tr.end = at(900), at(1100), true, at(2000)
		}},
		{"B2", "two containers pull what they mount again and again", func(tr *trace) { pulls(tr, 2, mostTries+1) }},
		{"R5: a mount", "a mount for a start is left", func(tr *trace) {
			tr.pods["u"].pod.Annotations = map[string]string{annotationMounts: "some"}
			tr.keep(pin, []types.UID{"u"})
		}},
		{"R5", "logs are left", func(tr *trace) { tr.pods["u"].removed = at(1); tr.keep("logs", []types.UID{"u"}) }},
		{"C2", "an attempt comes again", func(tr *trace) {
			tr.calls = critest.Journal{call(critest.CreateContainer, 1, unchanged), call(critest.CreateContainer, 2, func(c *critest.Call) { c.ContainerID = "b" })}
		}},
		{"C5", "a job runs twice after its start was answered", func(tr *trace) { job(tr); tr.calls = answered }},
		{"C5", "a job runs twice after it was reported as running", func(tr *trace) { job(tr); reportAt(tr, 2, isRunning("x://a")) }},
		{"C5", "a job runs twice after it was reported as ended", func(tr *trace) { job(tr); reportAt(tr, 2, terminated("x://a", 1)) }},
		{"W1: no start", "a start after the stop", func(tr *trace) {
			tr.works = []workSpan{{0, podworkers.Work{UID: "u", Type: podworkers.SyncTerminatingPod}, at(1)}}
			tr.calls = critest.Journal{call(critest.StartContainer, 2, unchanged)}
		}},
		{"W1: the phase", "a sync after the stop", func(tr *trace) {
			tr.works = []workSpan{{0, podworkers.Work{UID: "u", Type: podworkers.SyncTerminatingPod}, at(1)}, {0, podworkers.Work{UID: "u"}, at(2)}}
		}},
		{"W2", "a sandbox for a pod that is deleted", func(tr *trace) {
			tr.pods["u"].marked = at(1)
			tr.calls = critest.Journal{call(critest.RunPodSandbox, 2, unchanged)}
		}},
		{"I2", "an init container that ran elsewhere", func(tr *trace) {
			tr.pods["u"].pod.Spec.InitContainers = []v1.Container{{Name: "i0"}}
			tr.instances["i"] = &instance{Process: critest.Process{ContainerID: "i", PodUID: "u", Container: "i0", SandboxID: "old", Started: at(1), Ended: at(2)}}
			tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", SandboxID: "new", Started: at(3)}}
		}},
		{"M3", "a stop before the source has spoken", func(tr *trace) {
			tr.agents = []*agentSpan{{owner: "podsync", span: span{from: at(0)}, told: map[string]time.Time{"file": at(5)}}}
			tr.calls = critest.Journal{call(critest.StopPodSandbox, 3, unchanged)}
		}},
		{"T1", "running after the end", func(tr *trace) {
			reportAt(tr, 1, v1.PodStatus{Phase: v1.PodFailed})
			reportAt(tr, 2, v1.PodStatus{Phase: v1.PodRunning})
		}},
		{"T2", "another code", func(tr *trace) { reportAt(tr, 1, terminated("x://a", 1)); reportAt(tr, 2, terminated("x://a", 2)) }},
		{"T2", "a guess after a run that was not counted", func(tr *trace) {
			tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", Started: at(1), Ended: at(2), ExitCode: 1}}
			counted := terminated("x://a", 1)
			counted.ContainerStatuses[0].RestartCount = 1
			reportAt(tr, 3, counted)
			reportAt(tr, 4, terminated("", 137))
		}},
		{"T2", "a guess", func(tr *trace) { reportAt(tr, 1, terminated("x://a", 1)); reportAt(tr, 2, terminated("", 137)) }},
		{"T2", "not the truth", func(tr *trace) {
			tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", Started: at(1), Ended: at(2), ExitCode: 3}}
			reportAt(tr, 3, terminated("x://a", 1))
		}},
		{"C3", "a count that falls", func(tr *trace) {
			for _, n := range []int32{2, 1} {
				reportAt(tr, 1, v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c0", RestartCount: n}}})
			}
		}},
		{"S7", "a sandbox beside what runs", func(tr *trace) {
			tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", Started: at(1)}}
			tr.calls = critest.Journal{call(critest.RunPodSandbox, 2, unchanged)}
		}},
		{"S6", "a removal without a stop", func(tr *trace) { tr.calls = critest.Journal{call(critest.RemovePodSandbox, 2, unchanged)} }},
		{"C9, K6", "a sandbox is stopped while a container runs that got no signal", func(tr *trace) {
			tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", SandboxID: "s", Started: at(1)}}
			tr.shown["a"], tr.works = at(2), []workSpan{{0, podworkers.Work{UID: "u"}, at(3)}}
			tr.calls = critest.Journal{call(critest.StopPodSandbox, 4, unchanged)}
		}},
		{"E1", "many calls in vain", func(tr *trace) {
			tr.away = []span{{at(0), at(10)}}
			for range 1000 {
				tr.calls = append(tr.calls, call(critest.ListContainers, 5, unchanged))
			}
		}},
		{"S1", "nothing runs", func(*trace) {}},
		{"M1", "two of one name run", func(tr *trace) {
			other := *tr.pods["u"]
			tr.pods["v"] = &other
			two(tr)
			tr.instances["b"].PodUID = "v"
		}},
		{"M5", "another agent stops it", func(tr *trace) {
			tr.calls = critest.Journal{call(critest.StopContainer, 1, func(c *critest.Call) { c.Caller = "neighbour grpc-go" })}
		}},
		{"W9", "a kill without an answer", func(tr *trace) { tr.kills = []*kill{{uid: "u", at: at(1)}} }},
		{"W9", "a start after the answer", func(tr *trace) { two(tr); tr.kills = []*kill{{uid: "u", at: at(1), answered: at(3)}} }},
		{"K4", "an end that was none", func(tr *trace) { two(tr); reportAt(tr, 3, terminated("x://a", 0)) }},
		{"T5", "ready without a probe", func(tr *trace) {
			tr.pods["u"].pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
			s := isRunning("x://a")
			s.ContainerStatuses[0].Ready = true
			reportAt(tr, 3, s)
		}},
		{"C6", "no handler in an hour", func(tr *trace) {
			tr.end = at(3600)
			tr.pods["u"].pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", Started: at(1)}}
		}},
		{"C10", "another quota", func(tr *trace) {
			tr.pods["u"].cpu = 200
			tr.quotas["b"] = 10000
			two(tr)
		}},
		{"B1", "six starts in a minute", func(tr *trace) {
			for i := range 6 {
				tr.calls = append(tr.calls, call(critest.StartContainer, 5*i, unchanged))
			}
		}},
		{"I5", "a sidecar is stopped first", func(tr *trace) {
			tr.pods["u"].marked = at(1)
			two(tr)
			stop := func(c *critest.Call) { c.Container = "s0" }
			tr.timeouts[0] = 5
			tr.calls = critest.Journal{call(critest.StopContainer, 2, stop)}
		}},
		{"K1", "a stop with too much time", func(tr *trace) {
			tr.pods["u"].marked, tr.pods["u"].grace, tr.timeouts[0] = at(1), 5, 5
			tr.calls = critest.Journal{call(critest.StopContainer, 6, unchanged)}
		}},
		{"W9", "a kill that is not answered in time", func(tr *trace) {
			tr.kills = []*kill{{uid: "u", at: at(1), answered: at(601), err: context.DeadlineExceeded}}
		}},
		{"K1, W3, C9", "a container that runs on", func(tr *trace) {
			two(tr)
			tr.end, tr.pods["u"].marked, tr.pods["u"].grace = at(60), at(10), 5
		}},
		{"K1, W3, C9", "a container that is given its first time though it was given less", func(tr *trace) {
			two(tr)
			tr.instances["b"].Ended = at(25)
			tr.end, tr.pods["u"].marked, tr.pods["u"].grace, tr.pods["u"].hastened = at(60), at(10), 20, at(12)
		}},
		{"B1: the back-off doubles", "a third start after 5 s", func(tr *trace) {
			tr.pods["u"].kind = kindNamed("crash")
			for n, id := range []string{"a", "b", "c"} {
				tr.instances[id] = &instance{order: n, Process: critest.Process{
					ContainerID: id, PodUID: "u", Container: "c0", Started: at(8 * n), Ended: at(8*n + 3),
				}}
			}
		}},
		{"B2", "seven sandboxes in a minute", func(tr *trace) {
			for i := range 7 {
				tr.calls = append(tr.calls, call(critest.RunPodSandbox, 5*i, unchanged))
			}
		}},
		{"S4", "a sandbox that is stopped before its address may have come", func(tr *trace) {
			tr.calls = critest.Journal{call(critest.RunPodSandbox, 1, func(c *critest.Call) { c.Fault = "before: late address" }), call(critest.StopPodSandbox, 2, unchanged)}
		}},
		{"P3", "an end without faults that is reported late", func(tr *trace) {
			two(tr)
			tr.end, tr.instances["b"].Ended = at(1500), at(1000)
			reportAt(tr, 1000+20, terminated("x://b", 0))
		}},
		{"S3", "a pod that has failed before it has run", func(tr *trace) { reportAt(tr, 3, terminated("", 137)) }},
		{"M2", "an image of before", func(tr *trace) {
			tr.pods["u"].pod.Spec.Containers[0].Image = "new"
			tr.containers = []*runtimeapi.Container{{
				State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: map[string]string{runtime.LabelPodUID: "u"},
				Metadata: &runtimeapi.ContainerMetadata{Name: "c0"}, Image: &runtimeapi.ImageSpec{UserSpecifiedImage: "old"},
			}}
		}},
		{"C11", "an ephemeral container that runs again", func(tr *trace) {
			two(tr)
			tr.instances["a"].Container, tr.instances["b"].Container = "e0", "e0"
		}},
		{"T3", "an address that goes", func(tr *trace) {
			reportAt(tr, 1, v1.PodStatus{PodIP: "10.0.0.1"})
			reportAt(tr, 2, v1.PodStatus{})
		}},
		{"S1, C4, E3, E5", "a stop of a container that should run", func(tr *trace) {
			two(tr)
			stop := func(c *critest.Call) { c.ContainerID = "b" }
			tr.calls = critest.Journal{call(critest.StartContainer, 5, stop), call(critest.StopContainer, 8, stop)}
		}},
		{"S1", "a removed pod is left", func(tr *trace) {
			tr.pods["u"].removed = at(1)
			tr.containers = []*runtimeapi.Container{{Labels: map[string]string{runtime.LabelPodUID: "u"}}}
		}},
	} {
		tr := one()
		tt.breaks(tr)
		noticed := false
		broken := tr.result(0, false).Broken
		for _, what := range broken {
			noticed = noticed || strings.HasPrefix(what, tt.rule)
		}
		if !noticed {
			t.Errorf("%s: no rule notices %s: %q", tt.rule, tt.what, broken)
		}
	}
}

// A sidecar that waited for its restart is reported by its end once the pod has finished, and not
// before.
func TestSteadyUntilThePodHasFinished(t *testing.T) {
	state := func(app v1.ContainerState, sidecar v1.ContainerState) v1.PodStatus {
		end := terminated("x://s", 1).ContainerStatuses[0].State
		return v1.PodStatus{
			Phase:                 v1.PodRunning,
			ContainerStatuses:     []v1.ContainerStatus{{Name: "c0", State: app}},
			InitContainerStatuses: []v1.ContainerStatus{{Name: "s0", State: sidecar, LastTerminationState: end}},
		}
	}
	end := func(code int32) v1.ContainerState { return terminated("x://a", code).ContainerStatuses[0].State }
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := terminated("x://s", 1).ContainerStatuses[0].State
	for what, tc := range map[string]struct {
		policy v1.RestartPolicy
		app    v1.ContainerState
		broken bool
	}{
		"succeeded":           {v1.RestartPolicyOnFailure, end(0), false},
		"failed for good":     {v1.RestartPolicyNever, end(1), false},
		"failed":              {v1.RestartPolicyOnFailure, end(1), true},
		"restarts":            {v1.RestartPolicyAlways, end(0), true},
		"runs":                {v1.RestartPolicyNever, v1.ContainerState{Running: &v1.ContainerStateRunning{}}, true},
		"waits for a restart": {v1.RestartPolicyOnFailure, waits, true},
	} {
		tr := one()
		tr.pods["u"].pod.Spec.RestartPolicy = tc.policy
		reportAt(tr, 3, state(tc.app, waits))
		reportAt(tr, 4, state(tc.app, ended))
		broken := slices.ContainsFunc(tr.result(0, false).Broken, func(b string) bool { return strings.HasPrefix(b, "T7") })
		if broken != tc.broken {
			t.Errorf("%s: broken %t, want %t", what, broken, tc.broken)
		}
	}
}

// A container that waits for a restart may be reported with the same end again if it has run
// meanwhile: the runtime has lost the run before a status showed it.
func TestSteadyUntilItRuns(t *testing.T) {
	ended := terminated("x://s", 1).ContainerStatuses[0].State
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for started, broken := range map[int]bool{2: true, 4: false, 6: true} {
		tr := one()
		tr.pods["u"].pod.Spec.RestartPolicy = v1.RestartPolicyAlways
		tr.instances["b"] = &instance{Process: critest.Process{ContainerID: "b", PodUID: "u", Container: "c0", Started: at(started)}}
		for second, state := range map[int]v1.ContainerState{3: waits, 5: ended} {
			reportAt(tr, second, v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c0", State: state, LastTerminationState: ended}}})
		}
		slices.SortFunc(tr.statuses, func(a, b published) int { return a.at.Compare(b.at) })
		got := slices.ContainsFunc(tr.result(0, false).Broken, func(b string) bool { return strings.HasPrefix(b, "T7") })
		if got != broken {
			t.Errorf("a run that starts at second %d: broken %t, want %t", started, got, broken)
		}
	}
}

// A status from the instant at which an agent starts may be of the one before, which the new one does not know.
func TestSteadyForOneAgent(t *testing.T) {
	ended := terminated("x://s", 1).ContainerStatuses[0].State
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for from, broken := range map[int]bool{2: true, 3: false, 4: false, 6: true} {
		tr := one()
		tr.pods["u"].pod.Spec.RestartPolicy = v1.RestartPolicyAlways
		tr.agents[0].to = at(from)
		tr.agents = append(tr.agents, &agentSpan{owner: "podsync", span: span{from: at(from)}})
		for i, state := range []v1.ContainerState{waits, ended} {
			reportAt(tr, 3+2*i, v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c0", State: state, LastTerminationState: ended}}})
		}
		got := slices.ContainsFunc(tr.result(0, false).Broken, func(b string) bool { return strings.HasPrefix(b, "T7") })
		if got != broken {
			t.Errorf("an agent that starts at second %d: broken %t, want %t", from, got, broken)
		}
	}
}

// A container of a pod that cannot run may have been made all the same, and failed to start. The
// pod is then Running, as the API has it for a pod that restarts.
func TestNeverRunsButFailedToStart(t *testing.T) {
	for _, refused := range []bool{true, false} {
		tr := one()
		tr.pods["u"].kind = kindNamed("homeless")
		status := terminated("x://a", 128)
		status.Phase = v1.PodRunning
		reportAt(tr, 3, status)
		if refused {
			tr.calls = critest.Journal{call(critest.StartContainer, 2, func(c *critest.Call) { c.Err = errRefused })}
		}
		broken := slices.ContainsFunc(tr.result(0, false).Broken, func(b string) bool { return strings.Contains(b, "nothing of it can run") })
		if broken == refused {
			t.Errorf("the start was refused: %t, broken %t", refused, broken)
		}
	}
}

// The logs of a pod without a record may stay, those of a pod with a record that lacks something may not.
func TestLogsOfAPodWithoutARecord(t *testing.T) {
	for _, whole := range []bool{false, true} {
		tr := one()
		tr.pods["u"].removed = at(1)
		tr.keep("logs", []types.UID{"u"})
		tr.loseRecord("u", whole)
		broken := slices.ContainsFunc(tr.result(0, false).Broken, func(b string) bool { return strings.HasPrefix(b, "R5") })
		if broken == whole {
			t.Errorf("whole record lost: %t, broken %t", whole, broken)
		}
	}
}

// An agent that has lost its records counts an exit in the runtime as the exit of a run. It reports no exit
// of a container that the runtime does not have.
func TestEndOfAContainerThatWasNeverStarted(t *testing.T) {
	for _, tc := range []struct {
		lost   bool
		id     string
		broken bool
	}{
		{false, "x://a", true},
		{true, "x://a", false},
		{true, "", true},
	} {
		tr := one()
		if tc.lost {
			tr.recordsLost = map[types.UID][]time.Time{"u": {at(1)}}
		}
		reportAt(tr, 3, terminated(tc.id, 2))
		broken := slices.ContainsFunc(tr.result(0, false).Broken, func(b string) bool { return strings.HasPrefix(b, "S3: a pod that has ended") })
		if broken != tc.broken {
			t.Errorf("%+v: broken %t", tc, broken)
		}
	}
}

// A restart of the runtime during another one replaces it, and may end earlier.
func TestRuntimeUnavailable(t *testing.T) {
	tr := one()
	tr.runtimeAway(at(0), 10*time.Second)
	tr.runtimeAway(at(2), time.Second)
	tr.runtimeAway(at(5), 2*time.Second)
	if want := []span{{at(0), at(3)}, {at(5), at(7)}}; !slices.Equal(tr.away, want) {
		t.Errorf("the runtime was unavailable in %v, want %v", tr.away, want)
	}
}

// A container of a pod after its deadline may have missed its signal while the runtime was unavailable.
func TestLostReport(t *testing.T) {
	for what, tc := range map[string]struct {
		away     []span
		deadline time.Time
		broken   bool
	}{
		"the runtime is available":  {nil, at(2), true},
		"it was unavailable before": {[]span{{at(1), at(2)}}, at(2), true},
		"it is unavailable":         {[]span{{at(2), at(4)}}, at(2), false},
		"the pod has time left":     {[]span{{at(2), at(4)}}, at(9), true},
	} {
		tr := one()
		tr.instances["a"] = &instance{Process: critest.Process{ContainerID: "a", PodUID: "u", Container: "c0", SandboxID: "s", Started: at(1)}}
		tr.shown["a"], tr.works = at(2), []workSpan{{0, podworkers.Work{UID: "u", Deadline: tc.deadline}, at(3)}}
		tr.calls, tr.away = critest.Journal{call(critest.StopPodSandbox, 5, unchanged)}, tc.away
		broken := slices.ContainsFunc(tr.result(0, false).Broken, func(b string) bool { return strings.HasPrefix(b, "C9") })
		if broken != tc.broken {
			t.Errorf("%s: broken %t, want %t", what, broken, tc.broken)
		}
	}
}
