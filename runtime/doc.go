// Package runtime describes a node as its container runtime reports it: sandboxes, containers, and
// the pod status made from both. Every program that reads pod statuses imports it; it needs
// neither gRPC nor a runtime.
//
// The types are plain values with no connection to a runtime. Package runtime/cri converts CRI
// responses to them; package actions decides on them; tests write them as literals.
//
// # Which container is the current one
//
// The runtime may hold several sandboxes of a pod, and several containers with one name. The
// current one has the highest attempt. The time of creation does not matter, because clocks step
// back and attempts do not. Only [PodStatus.Latest] and [PodStatus.LatestSandbox] choose the
// current one.
//
// # Ownership
//
// Whoever creates a *PodStatus may modify it until it passes it on; after that it is read-only. No
// function in this module modifies a status that was passed to it, and all methods here may be
// called concurrently.
package runtime

// Where each rule lives:
//
//	status.go    PodStatus, and which instance is the current one
//	resources.go the resources that a container was created with, and those that a runtime reports
//	state.go     the states that a runtime reports
//	id.go        IDs of containers
//	labels.go    labels and annotations, and which pods are static
//	pod.go       sidecars and terminal phases
//	hash.go      the hash that detects a change of a spec
//	equal.go     whether two statuses are equal
//	cache.go     Cache: the newest status of each pod, and waiting for a newer one
//	podcontainer.go finds containers in a spec
