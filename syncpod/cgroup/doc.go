// Package cgroup computes the cgroups for a node's pods and their settings: the names, for both drivers, and
// the limits, for both kernel interface versions. A program that creates cgroups itself imports it for names
// and values; package tree writes them.
//
// It is pure and performs no I/O. Package syncpod/cgroup/tree creates, updates and removes a node's cgroups.
// In a kubelet, [PodName] is GetPodContainerName, [Name.Path] is ToSystemd and ToCgroupfs, and the other functions have its names.
//
// # What the caller provides
//
// Pods with the API's defaults: a container with a limit and no request requests its limit. A nil pod in a list counts as none.
// Nothing is modified, results share no memory with arguments, and all functions may be called concurrently. An error names
// the pod's field.
//
// # The tree
//
//	kubepods                            what pods have together        [ResourceConfigForNode]
//	├── pod<uid>                        each Guaranteed pod            [ResourceConfigForPod]
//	├── burstable                       all Burstable pods             [ResourceConfigForQOSClass]
//	│   └── pod<uid>
//	└── besteffort                      all BestEffort pods
//	    └── pod<uid>
//
// A runtime places the sandbox's and containers' cgroups below the pod's. The kernel's OOM killer, CPU shares, and
// pod-level limits depend on this tree.
//
// # Names
//
// A [Name] is the path to a cgroup, element by element. With the driver cgroupfs that is its path. With the driver
// systemd each level is a slice whose name is prefixed with those from all levels above it, see systemd.slice(5):
// kubepods/burstable/pod1-2 becomes kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice.
//
// [Resources] are one cgroup's settings. The [Driver] and the root determine its name.
package cgroup

// Where each rule lives:
//
//	name.go       names of the tree
//	pod.go        ResourceConfigForPod: the limits of one pod
//	above.go      ResourceConfigForNode and ResourceConfigForQOSClass: the cgroups above those of pods
//	larger.go     Larger: settings that fit before and after a resize
//	settings.go   which file holds which value, for version 1 and 2
//	cgroup.go     Resources, Driver, Version, shares and quotas
