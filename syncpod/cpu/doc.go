// Package cpu decides which CPUs a container runs on, as the CPU manager of a kubelet does.
//
// [Read] reads the machine from sysfs, and [New] makes an [Allocator] from it, a policy and the reserved CPUs. [Allocator.Allocate] returns
// the exclusive CPUs of a container, and [Allocator.Shared] those of all other containers. A [State] holds the exclusive CPUs. It is a
// value, with a form in JSON: the caller stores it, and calls [Allocator.Check] when it has read it again. A [Draft] lets a
// topology.Policy align the CPUs with other resources.
//
// The package changes no container: the caller writes CPUs to cpuset.cpus (CRI: linux.resources.cpuset_cpus) when it creates a container,
// and updates the containers of the shared pool when the pool changes. A kubelet sets no CFS quota for a container with exclusive CPUs.
//
// A kubelet gives out CPUs that are reserved or that another container has alone if cores or sockets of the machine have different sizes,
// because it compares free CPUs with the average size. An Allocator never does.
package cpu

// Where each rule lives:
//
//	set.go         Set: CPUs, and the list format of Linux
//	topology.go    Topology: sockets, NUMA nodes, caches, cores and threads
//	sysfs.go       Read
//	config.go      policies and options; which CPUs are reserved
//	allocate.go    Allocator: who gets exclusive CPUs, who may reuse them, who is rejected; the shared pool; resizes
//	take.go        which of the free CPUs: whole groups first, then the fullest places
//	distribute.go  the same with DistributeAcrossNUMA
//	hints.go       the NUMA nodes that could provide the CPUs
//	state.go       State: the exclusive CPUs of each container
//	draft.go       Draft: an Allocator as a topology.Provider
