// Package stop stops containers and pods.
//
// A container stops in three steps: its preStop handler runs, the containers that stop before
// it stop, and the runtime stops it. All three share one deadline. A pod stops all its live
// containers at once, sidecars after the containers that they serve, and then its sandboxes.
//
// The files:
//
//	grace.go      how long pods and containers have; pure
//	order.go      which containers of a pod are stopped, and in which order; pure
//	stopper.go    what a Stopper needs; StopContainer and RemoveContainer of the runtime
//	container.go  one container, and a runtime that does not answer
//	prestop.go    preStop handlers, those of containers without a spec included
//	pod.go        all containers of a pod and then its sandboxes, until nothing is alive
//
// Which deadline holds if there are several, and which steps were done before a restart of the
// agent, is remembered by package memory.
package stop
