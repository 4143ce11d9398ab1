// Package tree keeps the cgroups of pods on a node as package cgroup says they are.
//
// A [Tree] is a syncpod.Extensions.Cgroups: with it each pod has a cgroup in the tree of
// quality of service, and its sandbox is told to be there. Without one the runtime
// puts sandboxes wherever it does.
//
//	cgroups, err := tree.New(tree.Config{State: "/var/lib/my-agent/cgroups"})
//	agent, err := loop.New(loop.Config{..., Sync: syncpod.Config{
//		Extensions: syncpod.Extensions{Cgroups: cgroups},
//	}})
//
// # Drivers
//
// With the driver cgroupfs directories are made and files written below
// [Config.Mount]. With the driver systemd a slice is made by systemd, and the limits
// are properties of it, which need D-Bus: that is [Slices], which the embedder brings.
// Without it a Tree with that driver is refused. The agent's driver has to be the
// runtime's: [DriverOf] asks it.
//
// # Mine and not mine
//
// A cgroup of a pod is removed only if it was made here: a file in [Config.State] says
// so before it is made, and outlives the agent. One that was there before is
// used, and left when the pod is gone. The cgroups above those of pods stay for ever, as
// a kubelet's do; beside a running kubelet take another [Config.Root] than its.
//
// Before a cgroup is removed, what runs in it is killed. No path leads out of Mount,
// whatever links there are.
//
// # Where each rule lives
//
//	tree.go       Tree: ensure, raise and remove the cgroup of a pod
//	config.go     Config, and which trees the kernel has mounted
//	slices.go     Slices, DriverOf
//	apply.go      what is written, and when it must not be
//	current.go    what a cgroup has that this agent has not written
//	remove.go     what runs is killed, and directories are removed
package tree
