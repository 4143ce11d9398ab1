// Package stats reads what a node, its pods and its containers use: CPU, memory, network
// and file systems.
//
//	r, err := stats.New(stats.Config{Runtime: client})
//	all, err := r.Read(ctx, pods) // of a runtime.Cache
//
// # Where figures come from
//
// Those of the node come from /proc. Those of pods and containers come from the runtime,
// in one call for all of them (ListPodSandboxStats, or ListContainerStats if that fails),
// for which it has 5 s. What the runtime does not tell comes from the cgroups, of version
// 1 or 2, which are found by the names that runtimes give them: the UID of a pod, the ID
// of a container. A pod without a cgroup of its own uses what its containers use
// together, and what those have used that are gone.
//
// # What they mean
//
// They mean what they mean in a kubelet. The working set is the memory in use without
// the inactive part of the cache of files, and never less than 0. Available memory is
// what is left of the limit beyond the working set; of a cgroup without a limit it is not told. CPU
// time counts from the start of the container, the pod or the node. The rate of CPU use
// is what the runtime tells; where it tells none it is that since an earlier reading, at
// least a second and at most two minutes old, and so not there in the first one.
//
// # What goes wrong
//
// A figure that cannot be read is left out, and the error names the file or the call,
// and what is wrong with it. All other figures are there. What is gone by the time it is
// read is no error.
//
//	stats.go    the figures
//	reader.go   Config and Reader; read.go one reading
//	lacking.go  what the runtime does not tell
//	runtime.go  what the runtime tells
//	node.go     what /proc tells of the node
//	cgroup.go   what a cgroup tells, and cgroup_find.go which one is whose
//	network.go  interfaces
//	rate.go     the rate of CPU use; sum.go that of pods without a cgroup
//	files.go    numbers in files of the kernel
//	disk_linux.go, disk_other.go  how full a file system is
package stats
