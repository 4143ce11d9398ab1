// Package resize decides which resources a pod is allotted when those in its spec change
// while it runs (KEP-1287), and remembers what each pod is allotted.
//
// What a pod asks for and what it has are two things then. [Decide] says of one change
// whether it is accepted, has to wait for other pods to go (Deferred), or can never be
// on this node (Infeasible); [Order] which of several that wait comes first. Both are
// pure. An [Allocator] asks them, or an [Accepter] of the embedder in place of Decide,
// keeps the answers in files that outlive the agent, and tries again what waits whenever
// something is given back. It is a syncpod.Extensions.Allocations: the work on a pod is then
// done for the pod as it is allotted, and its status has the condition PodResizePending.
//
//	allocator, err := resize.New(resize.Config{State: "/var/lib/my-agent/allocations", Allocatable: node})
//	sync := syncpod.Config{Extensions: syncpod.Extensions{Allocations: allocator}}
//
// Without one each pod is allotted what it asks for.
//
// # What is allotted
//
// Requests and limits of CPU and memory of the containers, sidecars and init containers. A
// pod that is new is allotted what it asks for: whether it fits is for admission to say
// (loop.Config.Admission), which should count other pods as [Allocator.Allotted] has
// them.
//
// # Where each rule lives
//
//	decide.go       Decide: does a change fit?
//	order.go        Order: which change comes first
//	allotment.go    Allotment: what a pod is allotted, apart from the pod
//	allocator.go    Allocator: what all pods are allotted, remembered
//	pending.go      what waits, tried again
package resize
