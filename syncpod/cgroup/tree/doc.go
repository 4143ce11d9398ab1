// Package tree applies the settings of package cgroup to a node. An agent imports it for pod cgroups, QoS classes and
// limits on all pods.
//
// A [Tree] is a syncpod.Extensions.Cgroups: with it each pod has a cgroup in the QoS tree, and the
// sandbox's configuration names that cgroup as the parent. Without it the runtime chooses the
// parent of sandboxes.
//
//	cgroups, err := tree.New(tree.Config{State: "/var/lib/my-agent/cgroups"})
//	agent, err := agent.New(agent.Config{..., Sync: syncpod.Config{
//		Extensions: syncpod.Extensions{Cgroups: cgroups},
//	}})
//
// # Drivers
//
// With the driver cgroupfs, the Tree creates directories and writes files below [Config.Mount].
// With the driver systemd, systemd creates the slices, and the limits are their properties. That
// needs D-Bus, which the embedder provides as [Slices]; New returns an error without it. The driver
// must be the runtime's: [DriverOf] asks the runtime.
//
// # Ownership
//
// The Tree removes a pod's cgroup only if it created it: a file in [Config.State] records that
// before the creation, and outlives the agent. An existing cgroup is used, and kept when the pod is
// removed. The cgroups above those of pods are never removed, as in a kubelet. If a kubelet runs on
// the same node, use another [Config.Root].
//
// Before it removes a cgroup, the Tree kills the processes in it. No path leads out of Mount, even
// through links.
package tree

// Where each rule lives:
//
//	tree.go       Tree: ensure, raise and remove the cgroup of a pod
//	config.go     Config, and which trees the kernel has mounted
//	slices.go     Slices, DriverOf
//	reserved.go   LimitCgroup: limits of cgroups that are not the pods'
//	apply.go      writes settings, with checks
//	current.go    the settings of a cgroup that this agent has not written
//	pages.go      the limits of huge pages of slices, for which systemd has no property
//	remove.go     kills processes and removes directories
