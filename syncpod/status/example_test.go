package status_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// A pod is observed three times: while it runs, after its container has crashed and waits for a restart, and
// after the runtime has lost its records.
func ExampleGeneratePodStatus() {
	app := runtime.ContainerStatus{
		Name: "app", ID: runtime.ContainerID{Type: "containerd", ID: "a0"}, SandboxID: "s0", State: runtime.ContainerRunning,
	}
	observed := &runtime.PodStatus{
		Sandboxes:  []runtime.SandboxStatus{{ID: "s0", State: runtime.SandboxReady, Network: &runtime.SandboxNetwork{IPs: []string{"10.0.0.7"}}}},
		Containers: []runtime.ContainerStatus{app},
	}
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: observed}
	report := func() {
		s := apistatus.GeneratePodStatus(in)
		c := s.ContainerStatuses[0]
		fmt.Println(s.Phase, s.PodIP, "ready:", c.Ready, "restarts:", c.RestartCount)
		if w := c.State.Waiting; w != nil {
			fmt.Println("  waits:", w.Reason)
		}
		if last := c.LastTerminationState.Terminated; last != nil {
			fmt.Println("  ended last with exit code", last.ExitCode, last.Reason)
		}
		in.Previous = &s
	}
	report()

	app.State, app.ExitCode, app.Reason = runtime.ContainerExited, 137, "OOMKilled"
	observed.Containers = []runtime.ContainerStatus{app}
	in.StartErrors = map[string]apistatus.Problem{"app": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	report()

	in.Status = nil
	report()
	// Output:
	// Running 10.0.0.7 ready: true restarts: 0
	// Running 10.0.0.7 ready: false restarts: 0
	//   waits: CrashLoopBackOff
	//   ended last with exit code 137 OOMKilled
	// Running 10.0.0.7 ready: false restarts: 0
	//   waits: CrashLoopBackOff
	//   ended last with exit code 137 OOMKilled
}
