// Package resize decides which resources are allocated to a pod when those in its spec change while
// it runs (KEP-1287), and persists the allocations. A program imports it if pods may be resized in
// place and the node must not be overcommitted.
//
// The requested and the allocated resources may then differ. An [Allocator] decides whether a resize is accepted, must
// wait until other pods free resources (Deferred), or can never fit on this node (Infeasible). It persists the
// allocations in files, and retries deferred resizes whenever resources are freed. It is a
// syncpod.Extensions.Allocations: a sync then uses the pod's allocated resources, and the status has the condition
// PodResizePending.
//
//	allocator, err := resize.New(resize.Config{State: "/var/lib/my-agent/allocations", Allocatable: node})
//	sync := syncpod.Config{Extensions: syncpod.Extensions{Allocations: allocator}}
//
// Without an Allocator each pod is allocated its requests.
//
// # Taken alone
//
// [Decide] is the decision, for a caller that keeps the allocations itself.
//
// # Allocated resources
//
// The allocated resources are the requests and limits of CPU and memory of all containers, including sidecars and init
// containers. A new pod is allocated its requests: admission decides whether it fits (agent.Config.Admission), and
// should count other pods as [Allocator.Allocated] returns them.
package resize

// Where each rule lives:
//
//	decide.go      the decision on one resize; pure
//	order.go       the order of pending resizes; pure
//	allocation.go  the allocated resources of a pod
//	allocator.go   Allocator: the persisted allocations of all pods
//	pending.go     retries of pending resizes
