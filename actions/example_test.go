package actions_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

func shop() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-0", Namespace: "default", UID: "4f1c"},
		Spec: v1.PodSpec{
			RestartPolicy:  v1.RestartPolicyOnFailure,
			InitContainers: []v1.Container{{Name: "migrate", Image: "registry.example/migrate:v7"}},
			Containers:     []v1.Container{{Name: "app", Image: "registry.example/app:v7"}},
		},
	}
}

// The runtime has no object of the pod yet.
func ExampleCompute() {
	plan := actions.Compute(actions.Input{Pod: shop()})
	fmt.Print(plan)
	for _, step := range plan.Start {
		fmt.Println("->", step.Container.Kind, step.Container.Name, "as attempt", step.Attempt)
	}
	// Output:
	// create sandbox, attempt 0: the pod has no sandbox
	// start init container "migrate", attempt 0: the pod starts in a new sandbox
	// -> init container migrate as attempt 0
}

// A caller that remembers nothing has a pod and its status, and computes a plan after each change until nothing is left to do.
// A crashed container starts again at once, because no back-off is known.
func ExampleInput() {
	pod := shop()
	status := &runtime.PodStatus{
		Sandboxes: []runtime.SandboxStatus{{ID: "s1", State: runtime.SandboxReady}},
		Containers: []runtime.ContainerStatus{
			{Name: "migrate", SandboxID: "s1", State: runtime.ContainerExited},
			{Name: "app", SandboxID: "s1", State: runtime.ContainerExited, ExitCode: 1},
		},
	}
	fmt.Print(actions.Compute(actions.Input{Pod: pod, Status: status}))
	// Output: start container "app", attempt 1: it has ended and its restart policy asks for another run
}

// A caller that backs off adds that fact: the start is still in the plan, with the time until which it waits.
func ExampleInput_backOff() {
	pod := shop()
	status := &runtime.PodStatus{
		Sandboxes: []runtime.SandboxStatus{{ID: "s1", State: runtime.SandboxReady}},
		Containers: []runtime.ContainerStatus{
			{Name: "migrate", SandboxID: "s1", State: runtime.ContainerExited},
			{Name: "app", SandboxID: "s1", State: runtime.ContainerExited, ExitCode: 1},
		},
	}
	until := time.Date(2026, 11, 29, 8, 0, 10, 0, time.UTC)
	plan := actions.Compute(actions.Input{
		Pod: pod, Status: status,
		StartHolds: map[string]actions.Hold{"app": {Reason: actions.CrashBackOff, Until: until}},
	})
	for _, step := range plan.Start {
		fmt.Println(step.Container, "waits until", step.Hold.Until.Format(time.TimeOnly))
	}
	// Output: container "app" waits until 08:00:10
}

// Why was my container restarted?
func ExampleExplain() {
	pod := shop()
	status := &runtime.PodStatus{
		Sandboxes: []runtime.SandboxStatus{{ID: "s1", State: runtime.SandboxReady}},
		Containers: []runtime.ContainerStatus{
			{Name: "migrate", SandboxID: "s1", State: runtime.ContainerExited},
			{Name: "app", SandboxID: "s1", State: runtime.ContainerExited, ExitCode: 137, Reason: "OOMKilled", Attempt: 2},
		},
	}
	fmt.Println(actions.Explain(actions.Input{Pod: pod, Status: status}, "app"))
	fmt.Println(actions.Explain(actions.Input{Pod: pod, Status: status}, "migrate"))
	// Output:
	// Container "app" is started as attempt 3: it has ended and its restart policy asks for another run. The runtime reports attempt 2 of it as exited with exit code 137 (OOMKilled); its restart policy is OnFailure.
	// Init container "migrate" is left alone: initialization is over. The runtime reports attempt 0 of it as exited with exit code 0; its restart policy is OnFailure.
}

// A program matches the typed reasons, not their texts.
func ExampleReason() {
	pod := shop()
	id := runtime.ContainerID{Type: "containerd", ID: "a1"}
	status := &runtime.PodStatus{
		Sandboxes:  []runtime.SandboxStatus{{ID: "s1", State: runtime.SandboxReady}},
		Containers: []runtime.ContainerStatus{{ID: id, Name: "app", SandboxID: "s1", State: runtime.ContainerRunning, SpecHash: runtime.HashContainer(&pod.Spec.Containers[0])}},
	}
	plan := actions.Compute(actions.Input{
		Pod: pod, Status: status,
		Probes: map[runtime.ContainerID]actions.ProbeResults{id: {Liveness: actions.ProbeFailure}},
	})
	for _, step := range plan.Kill {
		if step.Reason == actions.LivenessFailed {
			fmt.Println("unhealthy:", step.Container.Name, "will restart:", step.Restart)
		}
	}
	// Output: unhealthy: app will restart: true
}
