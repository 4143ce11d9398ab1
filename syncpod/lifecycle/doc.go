// Package lifecycle stops containers and pods.
//
// A container stops in three steps: its preStop handler runs, the containers that must stop before it stop, and
// the runtime stops it. All three share one deadline. A pod stops all its live containers concurrently, but
// sidecars after the containers that they serve, and then its sandboxes.
//
// The files:
//
//	grace.go      the grace periods of pods and containers; pure
//	order.go      the containers of a pod to stop, and their order; pure
//	stopper.go    Stopper; StopContainer and RemoveContainer of the runtime
//	container.go  one container, and a runtime that does not respond
//	prestop.go    preStop handlers, including those of containers without a spec
//	pod.go        all containers of a pod and then its sandboxes, until none is alive
//
// Package memory remembers which of several deadlines applies, and which steps were done before a restart of
// the agent.
package lifecycle
