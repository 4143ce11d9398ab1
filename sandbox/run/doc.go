// Package run creates, stops and removes sandboxes over CRI, as a kubelet's createPodSandbox and killPodSandbox do. A program with its
// own loop imports it so that a lost answer leaves neither two sandboxes nor
// none.
//
// If a creation's answer is lost, [Runner.Create] inspects the runtime and adopts or removes the
// sandbox, so that the pod ends up with one sandbox. This works with runtimes that refuse a reserved
// name, and with runtimes that return the sandbox that has the name. A sandbox that appears after
// another one has replaced it is removed by [Runner.Resolve]: call it with each pod status while
// [Runner.Unresolved] is true.
//
// The caller provides the configuration, from package sandbox or its own, with an attempt above those of the pod's other
// sandboxes, and calls [Runner.Forget] when the pod has been removed. A failed Create leaves no sandbox that the Runner does
// not know; the caller retries it after a back-off. Errors have a class of package cri. All state is in memory: after a
// restart of the program, list the runtime before the first Create for a pod.
package run

// The files:
//
//	runner.go      Runner, and Resolve, which removes late sandboxes
//	create.go      Create, and lost answers
//	attempts.go    the next attempt, and the unresolved attempts
//	stop.go        Stop and Remove, one at a time for each sandbox; Wait and CancelPending
