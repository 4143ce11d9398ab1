// Package container builds one container's configuration, CRI's ContainerConfig, from a pod and facts about the node.
// A program that creates containers itself imports it for the message; container/start sends it.
//
// [GenerateContainerConfig] is pure. Its caller passes environment, mounts and devices: package syncpod/container/env
// resolves the environment, and the component that sets up volumes provides the mounts. [LogPath]
// and [VerifyRunAsNonRoot] can be used alone.
//
// # Labels and annotations
//
// A container's labels and annotations identify its pod and describe how to stop it. They have the kubelet's keys
// (constants in package runtime), so that log shippers, crictl and a later agent understand the container without the
// pod's spec. The hash is runtime.HashContainer.
//
// A [Node] has the settings that all containers on a node share. An agent has them in syncpod.Config, as
// Node.Containers.
//
// # What the caller provides
//
// A pod, with or without the API's defaults: grace periods and the path of the termination message are recorded as they are in
// the spec, so a later agent that has lost the spec knows only those. An attempt that increases with each instance of the
// container. The owner's label, from cri.Owner.Mark, if several agents share the runtime. Errors name the field.
//
// In a kubelet these are generateContainerConfig with newContainerLabels and newContainerAnnotations, verifyRunAsNonRoot and
// BuildContainerLogsDirectory.
//
// # Ownership
//
// All functions may be called concurrently. No argument is modified. The result shares no memory with the arguments except mounts, devices
// and CDI devices, which are the messages passed in.
//
// # Limits
//
// Linux only: Windows containers, and the windows part of the message, are not supported.
package container

// Where each rule lives:
//
//	config.go      GenerateContainerConfig: the message, from the parts below; LogPath
//	metadata.go    labels and annotations
//	mounts.go      mounts and devices
//	linux.go       security; profiles.go seccomp and AppArmor
//	resources.go   requests and limits; swap.go swap; oom.go the OOM score
//	user.go        VerifyRunAsNonRoot, and the user of the process
//	node.go        Node
