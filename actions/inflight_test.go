package actions_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// pulled is a pod whose container app has crashed, while the image of its container debug is being pulled.
func pulled() actions.Input {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "side"}}}}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	instance := func(name string, state runtime.ContainerState) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: name}, State: state, SandboxID: "s", ExitCode: 1}
	}
	return actions.Input{
		Pod: pod, InFlight: []string{"debug"},
		Status: &runtime.PodStatus{
			Sandboxes:  []runtime.SandboxStatus{{ID: "s", State: runtime.SandboxReady, NetworkMode: runtime.NamespacePod}},
			Containers: []runtime.ContainerStatus{instance("app", runtime.ContainerExited), instance("side", runtime.ContainerRunning)},
		},
	}
}

// B6: a container with a step of an earlier plan is left to that step, and the others get what they need.
func TestB6_ContainersInFlightAreLeftAlone(t *testing.T) {
	in := pulled()
	plan := actions.Compute(in)
	if len(plan.Start) != 1 || plan.Start[0].Container.Name != "app" || !plan.Start[0].Independent() {
		t.Errorf("%v, want a start of app that waits for none", plan)
	}
	if said := actions.Explain(in, "debug"); !strings.Contains(said, "earlier plan") {
		t.Errorf("%q", said)
	}
	in.Status.Containers = append(in.Status.Containers, runtime.ContainerStatus{Name: "debug", ID: runtime.ContainerID{ID: "d"}, SandboxID: "old", State: runtime.ContainerCreated})
	if plan := actions.Compute(in); len(plan.Clear) > 0 {
		t.Errorf("%v, want debug left alone", plan)
	}
}

// B6: a plan that starts the pod over includes the containers in flight.
func TestB6_NewSandboxIncludesContainersInFlight(t *testing.T) {
	in := pulled()
	in.InFlight = []string{"side"}
	in.Status.Sandboxes[0].State = runtime.SandboxNotReady
	if plan := actions.Compute(in); len(plan.Start) != 2 {
		t.Errorf("%v, want both started", plan)
	}
}

// B6: a container that starts for the first time waits for those before it.
func TestB6_FirstStartsDepend(t *testing.T) {
	in := pulled()
	in.InFlight, in.Status.Containers = nil, nil
	plan := actions.Compute(in)
	for _, s := range plan.Start {
		if got, want := s.Independent(), s.Container.Kind == actions.EphemeralContainer; got != want {
			t.Errorf("%v is independent: %t, want %t", s.Container, got, want)
		}
	}
	if len(plan.Start) != 3 {
		t.Errorf("%v, want three starts", plan)
	}
}
