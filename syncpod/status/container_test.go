package status_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// In an initialized pod, an init container without a record has succeeded; a sidecar without a record waits.
func TestForgottenInitContainers(t *testing.T) {
	elsewhere := node(exited("app", "a0", 0, 0))
	elsewhere.Containers[0].SandboxID = "an earlier one"
	for name, tc := range map[string]struct {
		status *runtime.PodStatus
		done   bool
	}{
		"nothing known":             {nil, false},
		"a container is created":    {node(created("app", "a0", 0)), true},
		"a container runs":          {node(running("app", "a0", 0)), true},
		"a container has ended":     {node(exited("app", "a0", 0, 1)), true},
		"a container is unknown":    {node(unknown("app", "a0", 0)), false},
		"one of an earlier sandbox": {elsewhere, false},
	} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: tc.status}
		in.Pod.Spec.InitContainers = []v1.Container{{Name: "init"}, {Name: "proxy", RestartPolicy: &always}}
		if tc.done { // the reason for not starting no longer applies
			in.StartErrors = map[string]apistatus.Problem{"init": {Reason: "ErrImagePull"}}
		}
		got := apistatus.GeneratePodStatus(in).InitContainerStatuses
		if end := got[0].State.Terminated; (end != nil && end.ExitCode == 0 && end.Reason == "Completed") != tc.done || got[0].Ready != tc.done {
			t.Errorf("%s: init container %+v, want it completed: %v", name, got[0], tc.done)
		}
		if w := got[1].State.Waiting; w == nil || w.Reason != string(apistatus.PodInitializing) {
			t.Errorf("%s: sidecar %+v, want it waiting", name, got[1].State)
		}
	}
}

func TestLostContainers(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a2", 2))}
		next(&in)
		if deleted {
			in.Pod.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		in.Status = nil
		want := map[bool]int32{false: 3, true: 2}[deleted]
		for range 3 {
			got := next(&in).ContainerStatuses[0]
			last := got.LastTerminationState.Terminated
			if got.State.Waiting == nil || last == nil || last.Reason != string(apistatus.StatusUnknown) || got.RestartCount != want {
				t.Errorf("deleted %v: %+v, want it waiting, lost, with %d restarts", deleted, got, want)
			}
		}
	}
}

// Only another instance counts as another run.
func TestTheSameInstanceIsCountedOnce(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(exited("app", "a0", 0, 1))}
	next(&in)
	in.Status = node(running("app", "a0", 0))
	if got := next(&in).ContainerStatuses[0]; got.RestartCount != 0 || got.LastTerminationState.Terminated != nil {
		t.Errorf("the same one runs: %d restarts, last state %+v", got.RestartCount, got.LastTerminationState)
	}
	in.Status = node(exited("app", "a0", 0, 1))
	next(&in)
	in.Status = node(running("app", "b0", 0))
	if got := next(&in).ContainerStatuses[0]; got.RestartCount != 1 || got.LastTerminationState.Terminated == nil {
		t.Errorf("another one runs: %d restarts, last state %+v", got.RestartCount, got.LastTerminationState)
	}
}

func TestOnlyDeclaredProbesCount(t *testing.T) {
	in := apistatus.Input{
		Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0)),
		Probes: map[runtime.ContainerID]actions.ProbeResults{containerID("a0"): {Startup: actions.ProbeFailure, Readiness: actions.ProbeFailure}},
	}
	if got := apistatus.GeneratePodStatus(in).ContainerStatuses[0]; !*got.Started || !got.Ready {
		t.Errorf("started %v, ready %v without declared probes", *got.Started, got.Ready)
	}
}

func TestEphemeralContainersAreNeitherStartedNorReady(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("debug", "d0", 0), running("app", "a0", 0))}
	in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	s := apistatus.GeneratePodStatus(in)
	if got := s.EphemeralContainerStatuses[0]; got.State.Running == nil || got.Ready || got.Started != nil {
		t.Errorf("%+v", got)
	}
	if condition(s, v1.PodReady).Status != v1.ConditionTrue {
		t.Error("the ephemeral container counts for the pod")
	}
}
