// Package pinning gives containers exclusive CPUs, and memory of chosen NUMA nodes, as the CPU manager, the memory manager and the
// topology manager of a kubelet do.
//
// A [Manager] connects the decisions of the packages cpu, numamemory and topology with an agent. It is the CPUSets of a
// syncpod.Extensions:
//
//	manager, err := pinning.New(pinning.Config{
//		State: "/var/lib/my-agent/pinning.json",
//		CPUs:  cpu.Config{Policy: cpu.Static, Topology: machine, ReservedCount: 1},
//	})
//	sync := syncpod.Config{Extensions: syncpod.Extensions{CPUSets: manager}}
//
// A loop.Loop asks it once about each new pod, and refuses a pod that cannot have its CPUs or memory. Containers are created with
// their CPUs. When the CPUs that the other containers share change, each running container is updated in place, but for those of
// pods that are being stopped. The CPUs of a pod are free again when its containers have stopped for good.
//
// The pod's own cgroup must have no CPU quota either, and a resize must not change exclusive CPUs. If the agent creates cgroups or
// accepts resizes, connect them:
//
//	tree.Config{ExclusiveCPUs: manager.HasCPUs}
//	resize.Config{Check: manager.Resize}
//
// The allocations of all pods are in one file, as in a kubelet, because each depends on all others. The next agent reads it. If the
// machine or the configuration does not fit the file any more, New returns an error that says what differs: the operator must
// then remove the pods, or the file.
//
// A pod that ran before the policy Static was set keeps the shared CPUs, until a new pod replaces it.
package pinning

// Where each rule lives:
//
//	config.go    Config, New
//	manager.go   Manager: admission, CPUs of containers, removal
//	file.go      the file
