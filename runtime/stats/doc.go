// Package stats reads what a node, its pods and its containers use: CPU, memory, network and file
// systems. A server imports it for /stats/summary, and an eviction manager for its measurements.
//
//	r, err := New(Config{Runtime: client})
//	all, err := r.Read(ctx, pods) // of a runtime.Cache
//
// # Sources
//
// The node's figures come from /proc. Those for pods and containers come from the runtime, in one call for all of them
// (ListPodSandboxStats, or ListContainerStats if that fails) that times out after 5 s. Figures that the runtime does not
// report are read from the cgroups, version 1 or 2, which are found by the names that runtimes give them: a pod's UID, a
// container's ID. For a pod without its own cgroup, the CPU time is the sum over its containers, removed ones
// included.
//
// # Meaning
//
// The figures have the same meaning as in a kubelet. The working set is the memory in use without the inactive part of the
// page cache, and never below 0. Available memory is the limit minus the working set; it is not reported for a cgroup
// without a limit. CPU time counts from when the container, the pod or the node started. The runtime reports the CPU rate.
// If the runtime reports none, the rate is computed from an earlier reading that is between a second and two minutes old,
// so the first reading has none.
//
// # Errors
//
// A figure that cannot be read is left out, and the error names the file or the call and the cause.
// All other figures are returned. A container or pod that disappears during the reading is not an
// error.
package stats

// The files:
//
//	stats.go    the figures
//	reader.go   Config and Reader; read.go one reading
//	lacking.go  figures that the runtime does not report
//	runtime.go  figures that the runtime reports
//	node.go     the node's figures, from /proc
//	cgroup.go   a cgroup's figures; cgroup_find.go finds the cgroup for a pod or container
//	detail.go   a cgroup's further figures, as in cAdvisor
//	network.go  interfaces
//	rate.go     the CPU rate; sum.go the CPU time for pods without a cgroup
//	files.go    numbers in the kernel's files
//	disk_linux.go, disk_other.go  file system usage
