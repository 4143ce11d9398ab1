// Package container makes the configuration of one container, as CRI's
// ContainerConfig describes it, from a pod and what the node knows.
//
// [Config] is pure. It takes the environment, mounts and devices ready-made:
// package env below this one resolves the environment, and whoever makes
// volumes knows the mounts. [LogPath] and [CheckNonRoot] are usable alone.
//
// # What a container is known by
//
// A container's labels and annotations say whose it is and how to stop it, in
// the kubelet's own keys (constants of package runtime), so that log shippers,
// crictl and an agent started later understand it without the pod's spec. The
// hash is runtime.HashContainer.
//
// # Where each rule lives
//
//	config.go      Config: the message, from the parts below; LogPath
//	metadata.go    labels and annotations
//	mounts.go      mounts and devices
//	linux.go       security; profiles.go seccomp and AppArmor
//	resources.go   requests and limits; oom.go who is killed first without memory
//	user.go        CheckNonRoot, and who runs the process
//
// # Ownership
//
// Nothing given is written to. What is returned shares no memory with it but the
// mounts, devices and CDI devices, which are the messages given.
//
// # Limits
//
// Linux only: Windows containers, and the windows part of the message, are out
// of scope. Swap limits are left to the runtime.
package container
