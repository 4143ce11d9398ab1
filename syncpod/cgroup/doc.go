// Package cgroup says which cgroups the pods of a node are in, and what stands in
// their files: the names of the tree, for both drivers, and its limits, for both
// versions of the kernel's interface.
//
// It is pure: nothing is read or written here. Package tree below it keeps the
// files of a node as this package says.
//
// # The tree
//
//	kubepods                            what pods have together        [OfNode]
//	├── pod<uid>                        each Guaranteed pod            [OfPod]
//	├── burstable                       all Burstable pods             [OfClass]
//	│   └── pod<uid>
//	└── besteffort                      all BestEffort pods
//	    └── pod<uid>
//
// A runtime puts the cgroups of sandbox and containers below that of the pod. The
// kernel's OOM killer, shares of CPU time, and limits of what a pod has together,
// which its containers do not have one by one, work by this tree.
//
// # Names
//
// A [Name] is the way to a cgroup, element by element. With the driver cgroupfs
// that is its path. With the driver systemd each level is a slice whose name has
// those of all levels above it in front, as systemd.slice(5) has it: what is
// kubepods/burstable/pod1-2 there is
// kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice.
//
// # Where each rule lives
//
//	name.go       names of the tree
//	pod.go        OfPod: what one pod may use
//	above.go      OfNode and OfClass: the cgroups above those of pods
//	larger.go     Larger: what fits before and after a resize
//	settings.go   what is written to which file, for version 1 and 2
package cgroup
