// Package lifecycle stops containers and pods. A program with its own loop
// imports it so that hooks, sidecars and deadlines end as in a kubelet.
//
// A [Stopper] is a kubelet's killContainer and killPodWithSyncResult:
//
//	stopper, err := lifecycle.New(lifecycle.Config{Runtime: client})
//	err = stopper.KillContainer(ctx, lifecycle.Container{Pod: pod, Status: status.Latest("app"), IPs: status.IPs()})
//	err = stopper.KillPod(ctx, lifecycle.Pod{Spec: pod, Status: status})
//
// A container stops in three steps: its preStop handler runs, the containers that must stop before it stop, and
// the runtime stops it. All three share one deadline. A pod stops all its live containers concurrently, but
// sidecars after the containers that they serve, and then its sandboxes. KillContainer stops one container, and nothing else of
// its pod.
//
// # What the caller provides
//
// The pod's status in the runtime, from runtime/reader or a cache, read after a container's last start: KillPod does not find a
// container that the status lacks. The pod's spec has the grace period and the preStop handlers; without a spec the grace period
// is a second, and the handlers are those in the containers' annotations.
//
// Package memory remembers which of several deadlines applies, and which steps were done before an agent restart. A caller that
// repeats stops passes a [Memory], such as a [ProcessMemory], so that a handler runs once.
//
// # What it guarantees
//
// A stop fails unless the runtime has confirmed it. KillContainer returns at most half a second and Config.Timeout after the
// deadline, or after two seconds if less is left; KillPod up to Config.Timeout later, for the sandboxes. A runtime that does not stop a container in its time is
// requested to kill it. Errors and events contain neither commands nor output.
package lifecycle

// Where each rule lives:
//
//	grace.go      the grace periods of pods and containers; pure
//	order.go      the containers of a pod to stop, and their order; pure
//	stopper.go    Stopper; StopContainer and RemoveContainer of the runtime
//	container.go  one container, and a runtime that does not respond
//	prestop.go    preStop handlers, including those of containers without a spec
//	clear.go      the instances that a plan stops and removes
//	pod.go        all containers of a pod and then its sandboxes, until none is alive
