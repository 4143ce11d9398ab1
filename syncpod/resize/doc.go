// Package resize decides which resources are allocated to a pod when those in its spec change while
// it runs (KEP-1287), and persists the allocations.
//
// The requested and the allocated resources may then differ. [Decide] decides whether a resize is
// accepted, must wait for other pods to end (Deferred), or can never fit this node (Infeasible);
// [Order] sorts pending ones. Both are pure. An [Allocator] calls them, or an [Accepter] of the
// embedder instead of Decide, persists the results in files, and retries pending resizes whenever
// resources are freed. It is a syncpod.Extensions.Allocations: a sync then uses the pod's allocated
// resources, and the status has the condition PodResizePending.
//
//	allocator, err := resize.New(resize.Config{State: "/var/lib/my-agent/allocations", Allocatable: node})
//	sync := syncpod.Config{Extensions: syncpod.Extensions{Allocations: allocator}}
//
// Without an Allocator each pod is allocated its requests.
//
// # Allocated resources
//
// Requests and limits of CPU and memory of the containers, sidecars and init containers. A new pod
// is allocated its requests: admission decides whether it fits (agent.Config.Admission), and should
// count other pods as [Allocator.Allocated] returns them.
//
// # Where each rule lives
//
//	decide.go       Decide: does a resize fit?
//	order.go        Order: which resize comes first
//	allocation.go    Allocation: the allocation, apart from the pod
//	allocator.go    Allocator: the persisted allocations of all pods
//	pending.go      retries of pending resizes
package resize
