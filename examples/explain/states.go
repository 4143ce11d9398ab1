package main

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// state is a situation of a pod.
type state struct {
	name, story string
	// happen changes a healthy pod to this state.
	happen func(n *node)
}

// states are the situations shown, in the order of a pod's life.
var states = []state{
	{"new", "the runtime knows nothing of the pod", func(n *node) { n.status = nil }},
	{"starting", "its first container has just been started", func(n *node) {
		n.status.Containers = n.status.Containers[:1]
		n.first().State = runtime.ContainerRunning
	}},
	{"running", "all is well", func(*node) {}},
	{"crashed", "an app has ended with exit code 1", func(n *node) { n.exit(n.app(), 1, "Error") }},
	{"unhealthy", "the liveness probe of an app fails", func(n *node) { n.probes[n.app().ID] = actions.ProbeResults{Liveness: actions.ProbeFailure} }},
	{"updated", "an app was made from another image than it has now", func(n *node) { n.app().SpecHash++ }},
	{"half-started", "the start of an app timed out, and its outcome is unknown", func(n *node) { n.app().State = runtime.ContainerCreated }},
	{"rebooted", "the machine has rebooted", func(n *node) { n.exitAll(255, "Unknown"); n.status.Sandboxes[0].State = runtime.SandboxNotReady }},
	{"finished", "every container has ended with exit code 0", func(n *node) { n.exitAll(0, "Completed") }},
}

func stateNames() []string {
	var names []string
	for _, s := range states {
		names = append(names, s.name)
	}
	return names
}

// input returns the input of actions.Compute for a pod in this state.
func (s state) input(pod *v1.Pod) actions.Input {
	n := healthy(pod)
	s.happen(n)
	return actions.Input{Pod: pod, Status: n.status, Probes: n.probes}
}

// node is one pod, as the runtime and the probes report it.
type node struct {
	pod    *v1.Pod
	status *runtime.PodStatus
	probes map[runtime.ContainerID]actions.ProbeResults
}

// healthy returns a healthy pod: init containers have succeeded, sidecars have started, and the
// others run.
func healthy(pod *v1.Pod) *node {
	n := &node{pod: pod, status: &runtime.PodStatus{UID: pod.UID}, probes: map[runtime.ContainerID]actions.ProbeResults{}}
	sandbox := runtime.SandboxStatus{ID: "sandbox-0", State: runtime.SandboxReady}
	if pod.Spec.HostNetwork {
		sandbox.NetworkMode = runtime.NamespaceNode
	} else {
		sandbox.Network = &runtime.SandboxNetwork{IPs: []string{"10.0.0.7"}}
	}
	n.status.Sandboxes = []runtime.SandboxStatus{sandbox}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if runtime.IsSidecar(c) {
			n.add(c, runtime.ContainerRunning)
		} else {
			n.add(c, runtime.ContainerExited)
		}
	}
	for i := range pod.Spec.Containers {
		n.add(&pod.Spec.Containers[i], runtime.ContainerRunning)
	}
	return n
}

func (n *node) add(c *v1.Container, s runtime.ContainerState) {
	id := runtime.ContainerID{Type: "example", ID: c.Name + "-0"}
	n.status.Containers = append(n.status.Containers, runtime.ContainerStatus{
		ID: id, Name: c.Name, SandboxID: "sandbox-0", State: s, SpecHash: runtime.HashContainer(c),
	})
	n.probes[id] = actions.ProbeResults{Liveness: actions.ProbeSuccess, Startup: actions.ProbeSuccess}
}

// first is the pod's first container, app its first regular one.
func (n *node) first() *runtime.ContainerStatus { return &n.status.Containers[0] }
func (n *node) app() *runtime.ContainerStatus {
	return n.status.Latest(n.pod.Spec.Containers[0].Name)
}

func (n *node) exit(c *runtime.ContainerStatus, code int32, reason string) {
	c.State, c.ExitCode, c.Reason = runtime.ContainerExited, code, reason
}

func (n *node) exitAll(code int32, reason string) {
	for i := range n.status.Containers {
		if c := &n.status.Containers[i]; c.State == runtime.ContainerRunning {
			n.exit(c, code, reason)
		}
	}
}
