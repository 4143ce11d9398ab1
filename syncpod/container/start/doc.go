// Package start creates and starts containers over CRI, so that a pod ends up with one container of each attempt whatever
// becomes of the runtime's answers. In a kubelet these are the two calls of startContainer that reach the runtime.
//
// [Runner.Create] creates a container from a configuration, such as that of package syncpod/container. If the answer is lost,
// it lists the container that has the name: the requested one is adopted, and another one is stopped and removed, after
// which the request is repeated once. If none is listed, the creation may still be in progress, or the runtime has lost the
// name: the caller repeats the same attempt later, until the name was refused too often (containerd #9947, cri-o #7010).
//
// [Runner.Start] starts it. If the answer is lost, it inspects the container, and never repeats the request: a container
// that is not running then may still start, and must be removed before another one replaces it (kubernetes #139670).
//
// The caller provides the sandbox, which must be ready, and [Attempts], which outlive a call. Before Start it records
// that the start was requested, so that the next agent knows that the container may have run.
//
// A Runner keeps no state. Its methods may be called concurrently, but not for two containers of one name.
package start

// Where each rule lives:
//
//	runner.go  Runner
