package status_test

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// next returns the next published status, which becomes the previous one.
func next(in *apistatus.Input) v1.PodStatus {
	s := apistatus.Merge(in.Previous, apistatus.GeneratePodStatus(*in))
	in.Previous = &s
	return s
}

func TestT1_PhaseNeverGoesBack(t *testing.T) {
	succeeded := node(exited("app", "a0", 0, 0))
	failed := node(exited("app", "a0", 0, 1))
	runs := node(running("app", "a1", 1))
	waits := node(created("app", "a2", 0))
	for name, tc := range map[string]struct {
		before v1.PodPhase
		now    *runtime.PodStatus
		want   v1.PodPhase
	}{
		"pending begins":                      {"", waits, v1.PodPending},
		"pending to running":                  {v1.PodPending, runs, v1.PodRunning},
		"pending to failed":                   {v1.PodPending, failed, v1.PodFailed},
		"running does not become pending":     {v1.PodRunning, waits, v1.PodRunning},
		"running with all records gone":       {v1.PodRunning, nil, v1.PodRunning},
		"running to succeeded":                {v1.PodRunning, succeeded, v1.PodSucceeded},
		"failed does not become succeeded":    {v1.PodFailed, succeeded, v1.PodFailed},
		"succeeded does not become failed":    {v1.PodSucceeded, failed, v1.PodSucceeded},
		"failed does not run again":           {v1.PodFailed, runs, v1.PodFailed},
		"succeeded with all records gone":     {v1.PodSucceeded, nil, v1.PodSucceeded},
		"failed with a container created new": {v1.PodFailed, waits, v1.PodFailed},
	} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: tc.now, Previous: &v1.PodStatus{Phase: tc.before}}
		if got := next(&in).Phase; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// Whichever input reports the end of the pod, the whole status is that of a finished pod.
func TestT1_AnEndIsForGood(t *testing.T) {
	for name, change := range map[string]func(*apistatus.Input, v1.PodPhase){
		"published before": func(in *apistatus.Input, p v1.PodPhase) { in.Previous = &v1.PodStatus{Phase: p} },
		"of the source": func(in *apistatus.Input, p v1.PodPhase) {
			in.Pod.Status.Phase, in.Previous = p, &v1.PodStatus{Phase: v1.PodRunning}
		},
	} {
		for phase, reason := range map[v1.PodPhase]string{v1.PodSucceeded: "PodCompleted", v1.PodFailed: "PodFailed"} {
			in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a1", 1))}
			change(&in, phase)
			got := apistatus.GeneratePodStatus(in)
			if ready := condition(got, v1.PodReady); got.Phase != phase || ready.Status != v1.ConditionFalse || ready.Reason != reason {
				t.Errorf("%s, %s: %s, ready %s %s, want Phase %v and Status %v and Reason %v", name, phase, got.Phase, ready.Status, ready.Reason, phase, v1.ConditionFalse, reason)
			}
		}
	}
}

// An evicted pod is Failed only when none of its containers runs.
func TestT1_EndsOnlyWhenNothingRuns(t *testing.T) {
	withSidecar := pod(v1.RestartPolicyNever, "app")
	withSidecar.Spec.InitContainers = []v1.Container{{Name: "proxy", RestartPolicy: &always}}
	for name, status := range map[string]*runtime.PodStatus{
		"a container":     node(running("app", "a0", 0), exited("proxy", "p0", 0, 0)),
		"a sidecar":       node(exited("app", "a0", 0, 0), running("proxy", "p0", 0)),
		"both":            node(running("app", "a0", 0), running("proxy", "p0", 0)),
		"one to debug it": node(exited("app", "a0", 0, 0), running("debug", "d0", 0)),
	} {
		in := apistatus.Input{Pod: withSidecar.DeepCopy(), Status: status, Previous: &v1.PodStatus{Phase: v1.PodRunning, Reason: "before"}}
		in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
		in.Evicted = &apistatus.Problem{Reason: "Evicted", Message: "low on memory"}
		if got := next(&in); got.Phase != v1.PodRunning || got.Reason != "before" || got.Message != "" {
			t.Errorf("%s runs: %s, %q, %q, want Phase %v and Reason %q and Message %q", name, got.Phase, got.Reason, got.Message, v1.PodRunning, "before", "")
		}
		for i := range status.Containers {
			status.Containers[i].State = runtime.ContainerExited
		}
		if got := next(&in); got.Phase != v1.PodFailed || got.Reason != "Evicted" || got.Message != "low on memory" {
			t.Errorf("%s has run: %s, %q, %q", name, got.Phase, got.Reason, got.Message)
		}
	}
}

// Hold makes any two statuses a valid sequence, and changes no more than necessary.
func TestT1_HoldIsAStepOfTheWalk(t *testing.T) {
	phases := []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed}
	for _, from := range phases {
		for _, to := range phases {
			last := v1.PodStatus{Phase: from, Reason: "Last", Message: "last"}
			want := v1.PodStatus{Phase: to, Reason: "Next", Message: "next", PodIP: "10.0.0.7"}
			status := *want.DeepCopy()
			switch {
			case from == v1.PodSucceeded || from == v1.PodFailed:
				want.Phase, want.Reason, want.Message = from, "Last", "last"
			case from == v1.PodRunning && to == v1.PodPending:
				want.Phase = v1.PodRunning
			}
			if got := apistatus.Merge(&last, status); !reflect.DeepEqual(got, want) {
				t.Errorf("%s after %s: %+v, want %+v", to, from, got, want)
			}
		}
	}
	running := v1.PodStatus{Phase: v1.PodFailed, ContainerStatuses: []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}
	for _, last := range []*v1.PodStatus{nil, {}} {
		if got := apistatus.Merge(last, running); got.Phase != v1.PodPending {
			t.Errorf("the first status: %q, want Pending", got.Phase)
		}
	}
}

func TestT1_EvictionDoesNotChangeHowAPodEnded(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: node(exited("app", "a0", 0, 0))}
	next(&in)
	in.Evicted = &apistatus.Problem{Reason: "Evicted", Message: "low on memory"}
	if got := next(&in); got.Phase != v1.PodSucceeded || got.Reason != "" {
		t.Errorf("phase %s, reason %q after an eviction that came too late", got.Phase, got.Reason)
	}
}

// A container's exit code was reported. Then its record is removed, its state becomes unknown, or the
// runtime, after losing it, reports another exit code.
func TestT2_ExitCodeOnceSeenIsKept(t *testing.T) {
	other := exited("app", "a0", 0, 255)
	other.Reason = "Unknown"
	for name, later := range map[string]*runtime.PodStatus{
		"record removed":   node(),
		"sandbox gone too": nil,
		"state unknown":    node(unknown("app", "a0", 0)),
		"another answer":   node(other),
	} {
		for _, deleted := range []bool{false, true} {
			in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: node(running("app", "a0", 0))}
			next(&in)
			in.Status = node(exited("app", "a0", 0, 42))
			next(&in)
			if deleted {
				in.Pod.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			in.Status, in.Terminal = later, deleted
			for round := range 3 {
				end := next(&in).ContainerStatuses[0].State.Terminated
				if end == nil || end.ExitCode != 42 || end.Reason != "Error" {
					t.Errorf("%s, deleted %v, round %d: %+v, want exit code 42", name, deleted, round, end)
				}
			}
		}
	}
}

func TestT2_LastStateOutlivesTheRecord(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a1", 1), exited("app", "a0", 0, 42))}
	next(&in)
	for name, status := range map[string]*runtime.PodStatus{
		"the same instance":   node(running("app", "a1", 1)),
		"its state unknown":   node(unknown("app", "a1", 1)),
		"nothing is left":     nil,
		"only a created one":  node(created("app", "a2", 2)),
		"the earlier changed": node(running("app", "a1", 1), exited("app", "a0", 0, 255)),
	} {
		in := in
		in.Status = status
		last := apistatus.GeneratePodStatus(in).ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.ExitCode != 42 {
			t.Errorf("%s: last state %+v, want exit code 42", name, last)
		}
	}
}

// The container's exit was not observed, so 137 is reported until the exit code is known.
func TestT2_AGuessGivesWayToAnObservation(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: node(running("app", "a0", 0))}
	next(&in)
	in.Status = node(unknown("app", "a0", 0))
	guess := next(&in).ContainerStatuses[0].State.Terminated
	if guess == nil || guess.Reason != string(apistatus.StatusUnknown) || guess.ExitCode != 137 {
		t.Fatalf("%+v, want ContainerStatusUnknown", guess)
	}
	again := next(&in).ContainerStatuses[0]
	if again.State.Terminated == nil || again.RestartCount != 1 {
		t.Errorf("the second look: %+v, want the same", again)
	}
	in.Status = node(exited("app", "a0", 0, 3))
	if end := next(&in).ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
		t.Errorf("%+v, want exit code 3", end)
	}
}

// A guessed exit is not left as the last state either when the runtime knows the instance again. In the meantime a
// new instance was counted, which never ran.
func TestT2_FoundContainerReplacesAGuess(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: node(created("app", "a1", 1)), Ended: true}
	guess := next(&in).ContainerStatuses[0]
	if end := guess.State.Terminated; end == nil || end.Reason != string(apistatus.StatusUnknown) || guess.RestartCount != 1 {
		t.Fatalf("%+v, want ContainerStatusUnknown after a restart", guess)
	}
	in.Status = node(exited("app", "a0", 0, 128))
	for range 2 {
		got := next(&in).ContainerStatuses[0]
		if end := got.State.Terminated; end == nil || end.ExitCode != 128 || got.LastTerminationState.Terminated != nil || got.RestartCount != 1 {
			t.Errorf("%+v, want exit code 128 and no last state", got)
		}
	}
}

// A guessed exit is not left as the last state of an instance whose real exit is known by now, even if the container
// waited in the meantime. A guess about an earlier instance is left.
func TestT2_AGuessGivesWayAsLastState(t *testing.T) {
	for name, tc := range map[string]struct {
		between *runtime.PodStatus
		now     runtime.ContainerStatus
		left    bool
	}{
		"of the same instance":         {node(unknown("app", "a0", 0)), exited("app", "a0", 0, 3), false},
		"of the one before":            {node(created("app", "a1", 1)), exited("app", "a1", 1, 3), true},
		"of the one before, which ran": {node(created("app", "a1", 1)), running("app", "a1", 1), true},
	} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0))}
		next(&in)
		in.Status = node(unknown("app", "a0", 0))
		next(&in)
		in.Status = tc.between
		in.StartErrors = map[string]apistatus.Problem{"app": {Reason: "CreateContainerError"}}
		if s := next(&in).ContainerStatuses[0]; s.State.Waiting == nil || s.LastTerminationState.Terminated == nil {
			t.Fatalf("%s: %+v, want it to wait after a guess", name, s)
		}
		in.StartErrors = nil
		in.Status = node(tc.now)
		if last := next(&in).ContainerStatuses[0].LastTerminationState.Terminated; (last != nil) != tc.left {
			t.Errorf("%s: last state %+v", name, last)
		}
	}
}

// A reported exit stays if its record is lost, even if the record of an earlier exit still exists.
func TestT2_AnEarlierRecordDoesNotReplaceAnEnd(t *testing.T) {
	older := exited("app", "a0", 0, 1)
	for name, end := range map[string]runtime.ContainerStatus{"seen": exited("app", "a1", 1, 42), "lost": apistatus.Lost(running("app", "a1", 1))} {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyAlways} {
			in := apistatus.Input{Pod: pod(policy, "app"), Status: node(end, older)}
			want := next(&in).ContainerStatuses[0]
			in.Status = node(older)
			for range 2 {
				got := next(&in).ContainerStatuses[0]
				if *got.State.Terminated != *want.State.Terminated || *got.LastTerminationState.Terminated != *want.LastTerminationState.Terminated || got.RestartCount != 1 {
					t.Errorf("%s, %s: %+v, want %+v", name, policy, got, want)
				}
			}
		}
	}
}

// A lost instance is reported as lost, without its ID, because its exit was not observed. A later observation
// replaces the guess.
func TestT2_LostIsAGuess(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: node(running("app", "a0", 0))}
	next(&in)
	in.Status = node(apistatus.Lost(running("app", "a0", 0)))
	for range 2 {
		s := next(&in)
		c := s.ContainerStatuses[0]
		end := c.State.Terminated
		if s.Phase != v1.PodFailed || c.RestartCount != 0 || end == nil || end.ExitCode != apistatus.LostExitCode || end.Reason != string(apistatus.StatusUnknown) || end.ContainerID != "" {
			t.Errorf("%s, %+v, want Phase %v, no restart, and the end of what was lost", s.Phase, c, v1.PodFailed)
		}
	}
	in.Status = node(exited("app", "a0", 0, 3))
	if c := next(&in).ContainerStatuses[0]; c.State.Terminated == nil || c.State.Terminated.ExitCode != 3 || c.LastTerminationState.Terminated != nil {
		t.Errorf("%+v, want exit code 3", c)
	}
}

func TestT3_AddressesStay(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0)), HostIPs: []string{"192.0.2.1"}}
	next(&in)
	in.HostIPs = nil
	setUp := node()
	setUp.Sandboxes = append(setUp.Sandboxes, runtime.SandboxStatus{ID: "s1", Attempt: 1, State: runtime.SandboxReady, Network: &runtime.SandboxNetwork{}})
	stopped := node()
	stopped.Sandboxes[0].State = runtime.SandboxNotReady
	for name, status := range map[string]*runtime.PodStatus{"no sandbox": nil, "a stopped one": stopped, "a new one being set up": setUp} {
		in.Status = status
		if got := next(&in); got.PodIP != "10.0.0.7" || len(got.PodIPs) != 1 || got.HostIP != "192.0.2.1" || len(got.HostIPs) != 1 {
			t.Errorf("%s: pod %q %v, host %q %v", name, got.PodIP, got.PodIPs, got.HostIP, got.HostIPs)
		}
	}
	setUp.Sandboxes[1].Network.IPs = []string{"10.0.0.8"}
	in.Status = setUp
	if got := next(&in); got.PodIP != "10.0.0.8" || len(got.PodIPs) != 1 {
		t.Errorf("a new sandbox with an address: %q %v, want 10.0.0.8", got.PodIP, got.PodIPs)
	}
}

// A container was killed because its liveness probe failed, and also by the kernel: the runtime's
// reason is reported unchanged, as the state and as the last state.
func TestT4_AnEndIsReportedAsTheRuntimeGaveIt(t *testing.T) {
	end := exited("app", "a0", 0, 143)
	end.Reason, end.Message = "OOMKilled", "last words"
	end.StartedAt = noon.Add(-time.Minute)
	want := v1.ContainerStateTerminated{
		ExitCode: 143, Reason: "OOMKilled", Message: "last words",
		StartedAt: metav1.NewTime(noon.Add(-time.Minute)), FinishedAt: metav1.NewTime(noon), ContainerID: "containerd://a0",
	}
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(end)}
	if got := apistatus.GeneratePodStatus(in).ContainerStatuses[0].State.Terminated; got == nil || *got != want {
		t.Errorf("state %+v, want %+v", got, want)
	}
	in.StartErrors = map[string]apistatus.Problem{"app": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	if got := next(&in).ContainerStatuses[0].LastTerminationState.Terminated; got == nil || *got != want {
		t.Errorf("last state while it waits %+v, want %+v", got, want)
	}
	in.Status = node(running("app", "a1", 1), end)
	if got := next(&in).ContainerStatuses[0].LastTerminationState.Terminated; got == nil || *got != want {
		t.Errorf("last state %+v, want %+v", got, want)
	}
}

// A restarted agent has no probe results. Running containers keep their reported readiness; replaced containers
// start over.
func TestT5_ReadyAndStartedAreThoseOfTheSameInstance(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, "app")
	p.Spec.Containers[0].StartupProbe, p.Spec.Containers[0].ReadinessProbe = &v1.Probe{}, &v1.Probe{}
	probes := func(startup, readiness actions.ProbeResult) map[runtime.ContainerID]actions.ProbeResults {
		return map[runtime.ContainerID]actions.ProbeResults{containerID("a0"): {Startup: startup, Readiness: readiness}}
	}
	reported := func(in apistatus.Input) [2]bool {
		s := apistatus.GeneratePodStatus(in).ContainerStatuses[0]
		return [2]bool{*s.Started, s.Ready}
	}
	in := apistatus.Input{Pod: p, Status: node(running("app", "a0", 0))}
	if got := reported(in); got != [2]bool{false, false} {
		t.Errorf("started and ready %v before any probe", got)
	}
	in.Probes = probes(actions.ProbeSuccess, actions.ProbeSuccess)
	if got := next(&in).ContainerStatuses[0]; !*got.Started || !got.Ready {
		t.Fatalf("started %v and ready %v after both probes passed", *got.Started, got.Ready)
	}
	for name, tc := range map[string]struct {
		id     string
		probes map[runtime.ContainerID]actions.ProbeResults
		want   [2]bool
	}{
		"the same, not probed yet":       {"a0", nil, [2]bool{true, true}},
		"another, not probed yet":        {"a1", nil, [2]bool{false, false}},
		"the same, readiness fails":      {"a0", probes(actions.ProbePending, actions.ProbeFailure), [2]bool{true, false}},
		"the same, startup fails":        {"a0", probes(actions.ProbeFailure, actions.ProbePending), [2]bool{false, false}},
		"the same, readiness is unclear": {"a0", probes(actions.ProbePending, actions.ProbeUnknown), [2]bool{true, false}},
	} {
		in.Status, in.Probes = node(running("app", tc.id, 0)), tc.probes
		if got := reported(in); got != tc.want {
			t.Errorf("%s: started and ready %v, want %v", name, got, tc.want)
		}
	}
	p.Spec.Containers[0].StartupProbe = nil
	in.Status, in.Probes = node(running("app", "a1", 0)), nil
	if got := reported(in); got != [2]bool{true, false} {
		t.Errorf("another without a startup probe: started and ready %v, want only started", got)
	}
}

func TestT6_RunningContainerIsReportedAsRunning(t *testing.T) {
	for name, status := range map[string]*runtime.PodStatus{
		"a later one is created": node(created("app", "a1", 1), running("app", "a0", 0)),
		"a later one has ended":  node(exited("app", "a1", 1, 1), running("app", "a0", 0)),
		"a later one is unknown": node(unknown("app", "a1", 1), running("app", "a0", 0)),
		"of equal attempt":       node(exited("app", "a1", 0, 1), running("app", "a0", 0)),
		"two run":                node(running("app", "b0", 0), running("app", "a0", 1)),
	} {
		in := apistatus.Input{
			Pod: pod(v1.RestartPolicyAlways, "app"), Status: status,
			StartErrors: map[string]apistatus.Problem{"app": {Reason: "CrashLoopBackOff"}},
		}
		in.Previous = &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "app", ContainerID: "containerd://a0", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1, ContainerID: "containerd://a0"}}},
		}}
		got := apistatus.GeneratePodStatus(in)
		if c := got.ContainerStatuses[0]; c.State.Running == nil || c.ContainerID != "containerd://a0" || got.Phase != v1.PodRunning {
			t.Errorf("%s: %s, %s %+v, want containerd://a0 running", name, got.Phase, c.ContainerID, c.State)
		}
	}
}

func TestC3_RestartCountNeverFalls(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a5", 5))}
	next(&in)
	for _, tc := range []struct {
		name   string
		status *runtime.PodStatus
		want   int32
	}{
		{"ended", node(exited("app", "a5", 5, 1)), 5},
		{"all records lost", nil, 5},
		{"counted from 0 again", node(running("app", "b0", 0)), 6},
		{"settled", node(running("app", "b0", 0)), 6},
		{"unknown", node(unknown("app", "b0", 0)), 7},
		{"still unknown", node(unknown("app", "b0", 0)), 7},
		{"the run that was counted", node(running("app", "b1", 1)), 7},
		{"created", node(created("app", "b2", 2)), 7},
		{"a higher attempt", node(running("app", "b9", 9)), 9},
	} {
		in.Status = tc.status
		if got := next(&in).ContainerStatuses[0].RestartCount; got != tc.want {
			t.Errorf("%s: restart count %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestC8_CreatedCountsAsWaiting(t *testing.T) {
	for name, status := range map[string]*runtime.PodStatus{
		"first":                   node(created("app", "a0", 0)),
		"after a failed one":      node(created("app", "a1", 1), exited("app", "a0", 0, 1)),
		"after a success":         node(created("app", "a1", 1), exited("app", "a0", 0, 0)),
		"beside one that is done": node(created("app", "a0", 0), exited("job", "j0", 0, 0)),
	} {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways} {
			in := apistatus.Input{Pod: pod(policy, "app"), Status: status, Terminal: true}
			in.Pod.DeletionTimestamp = &metav1.Time{Time: noon}
			if len(status.Containers) > 1 && status.Containers[1].Name == "job" {
				in.Pod = pod(policy, "app", "job")
			}
			got := apistatus.GeneratePodStatus(in)
			if got.Phase == v1.PodSucceeded || got.Phase == v1.PodFailed {
				t.Errorf("%s, %s: phase %s, want neither %v nor %v", name, policy, got.Phase, v1.PodSucceeded, v1.PodFailed)
			}
			if got.ContainerStatuses[0].State.Waiting == nil {
				t.Errorf("%s, %s: state %+v, want waiting", name, policy, got.ContainerStatuses[0].State)
			}
		}
	}
}

// A container has exited and waits for a restart, and the wait ends without a new instance. Its exit is reported
// once, and not also as that of an earlier instance.
func TestT2_AnEndIsReportedOnce(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(exited("app", "a0", 0, 42))}
	in.StartErrors = map[string]apistatus.Problem{"app": {Reason: "CreateContainerError"}}
	if s := next(&in).ContainerStatuses[0]; s.State.Waiting == nil || s.LastTerminationState.Terminated == nil {
		t.Fatalf("%+v does not wait", s)
	}
	in.StartErrors = nil
	if s := next(&in).ContainerStatuses[0]; s.State.Terminated == nil || s.LastTerminationState.Terminated != nil {
		t.Errorf("%+v, want one end", s)
	}
}

// The record of the instance with the pod's last exit was lost and is found again: the exit is reported once.
func TestT2_AnEndIsReportedOnceWhenItsRecordReturns(t *testing.T) {
	status := node(exited("app", "a0", 0, 42))
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: status}
	in.StartErrors = map[string]apistatus.Problem{"app": {Reason: "CreateContainerError"}}
	next(&in)
	in.StartErrors, in.Status, in.Ended = nil, node(), true
	if s := next(&in).ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 42 {
		t.Fatalf("%+v has not ended with 42", s)
	}
	in.Status = status
	if s := next(&in).ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 42 || s.LastTerminationState.Terminated != nil {
		t.Errorf("%+v, want one end, with 42", s)
	}
}
