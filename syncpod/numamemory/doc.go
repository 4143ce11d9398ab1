// Package numamemory gives containers memory and huge pages from NUMA nodes, as the memory manager of a kubelet does
// (KEP-1769). A program that assigns memory to NUMA nodes imports it.
//
// A [State] is a machine's memory, and which container has which part. [State.Hints] returns the sets of NUMA nodes that can serve a container, for package
// topology to merge with those of CPUs and devices; [State.Allocate] gives the container its memory from the chosen nodes. Only
// Guaranteed pods get memory of their own, with the policy Static. The caller sets the nodes of [State.Container] as the cpuset.mems of
// the container, and stores the State. [State.Started] and [State.Release] free memory.
//
//	state, err := numamemory.New(numamemory.Config{Policy: numamemory.PolicyStatic, Nodes: nodes})
//	memory := &numamemory.Admission{State: state}
//	affinities, refusal := policy.Admit(pod, memory)
//	if refusal == nil {
//		state = memory.State
//	}
//
// A container that needs several nodes gets a group of them. As long as a container has memory from a group, the group's nodes serve no
// other set of nodes: otherwise a container could use up memory that another one has reserved.
//
// All this but Read is pure, and a State may be used concurrently. The decisions are those of kubelet v1.36.2 on thousands of recorded
// machines, but for one deviation in docs/PARITY.md. Like a kubelet, it does not align the huge pages of a whole pod that only init
// containers request. Pods with pod-level resources get no memory from it.
package numamemory

// Where each rule lives:
//
//	state.go     Config, State: what the machine has, and its blocks
//	sysfs.go     Read
//	allocate.go  hints, allocation, reuse by init containers
