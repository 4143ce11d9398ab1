// Package runtime describes a node as its container runtime reports it:
// sandboxes, containers, and the status of one pod made of both.
//
// The types are plain values with no connection to a runtime. Package
// runtime/cri fills them from CRI answers; package actions decides on them;
// tests write them as literals.
//
// # Which container is the current one
//
// A pod's history holds several sandboxes and several containers of one name.
// The current one is the one with the highest attempt, never the one created
// last by the clock: clocks step back, attempts do not. [PodStatus.Latest] and
// [PodStatus.LatestSandbox] are the only places that choose.
//
// # Where each rule lives
//
//	status.go    PodStatus, and which instance is the current one
//	resources.go what a container is made with, and what a runtime reports of that
//	state.go     the states that a runtime reports
//	id.go        IDs of containers
//	labels.go    labels and annotations, and which pods are static
//	pod.go       sidecars and terminal phases
//	hash.go      the hash by which a change of a spec is seen
//	equal.go     which statuses say the same
//	cache.go     Cache: the newest status of each pod, and who waits for a newer one
//
// # Ownership
//
// A *PodStatus is read by many and written by whoever made it, before it is
// handed out. Nothing in this module writes to one it was given, and all
// methods here may be called concurrently.
package runtime
