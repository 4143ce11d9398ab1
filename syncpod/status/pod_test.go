package status_test

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

var (
	noon   = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	always = v1.ContainerRestartPolicyAlways
)

// pod returns a pod with that restart policy and regular containers of those names.
func pod(policy v1.RestartPolicy, names ...string) *v1.Pod {
	parts := []func(*v1.Pod){podtest.UID("4f1c"), podtest.RestartPolicy(policy)}
	for _, name := range names {
		parts = append(parts, podtest.Container(name, podtest.Image("registry.example/"+name+":v7")))
	}
	return podtest.Pod("shop-0", parts...)
}

// node returns the status of a pod with a ready sandbox and those containers in it.
func node(containers ...runtime.ContainerStatus) *runtime.PodStatus {
	s := &runtime.PodStatus{Containers: containers, Sandboxes: []runtime.SandboxStatus{
		{ID: "s0", State: runtime.SandboxReady, Network: &runtime.SandboxNetwork{IPs: []string{"10.0.0.7"}}},
	}}
	for i := range s.Containers {
		s.Containers[i].SandboxID = "s0"
	}
	return s
}

func containerID(id string) runtime.ContainerID {
	return runtime.ContainerID{Type: "containerd", ID: id}
}

func running(name, id string, attempt uint32) runtime.ContainerStatus {
	return runtime.ContainerStatus{Name: name, ID: containerID(id), Attempt: attempt, State: runtime.ContainerRunning, StartedAt: noon}
}

func exited(name, id string, attempt uint32, code int32) runtime.ContainerStatus {
	return runtime.ContainerStatus{Name: name, ID: containerID(id), Attempt: attempt, State: runtime.ContainerExited, ExitCode: code, Reason: "Error", FinishedAt: noon}
}

func created(name, id string, attempt uint32) runtime.ContainerStatus {
	return runtime.ContainerStatus{Name: name, ID: containerID(id), Attempt: attempt, State: runtime.ContainerCreated}
}

func unknown(name, id string, attempt uint32) runtime.ContainerStatus {
	return runtime.ContainerStatus{Name: name, ID: containerID(id), Attempt: attempt}
}

// settled returns a pod with a finished init container, a sidecar and two regular containers. All are in their
// desired state, and were reported so.
func settled() apistatus.Input {
	p := pod(v1.RestartPolicyAlways, "web", "worker")
	p.Spec.InitContainers = []v1.Container{{Name: "migrate"}, {Name: "proxy", RestartPolicy: &always}}
	in := apistatus.Input{Pod: p, HostIPs: []string{"192.0.2.1"}, Now: noon, Status: node(
		exited("migrate", "m0", 0, 0), running("proxy", "p0", 0), running("web", "w0", 0), running("worker", "k0", 0))}
	before := apistatus.GeneratePodStatus(in)
	in.Previous = &before
	return in
}
