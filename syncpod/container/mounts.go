package container

import (
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// MountRequest asks for the mounts of one container that is about to be made.
// Whoever answers only reads it.
type MountRequest struct {
	// Pod is the pod, and Container one of its init, regular or ephemeral
	// containers. Both are required.
	Pod       *v1.Pod
	Container *v1.Container
	// Attempt counts the containers of this name in the pod, from 0. What belongs
	// to one instance alone is told apart by it.
	Attempt uint32
	// Env are the variables that $(NAME) in a subPathExpr refers to.
	Env []env.Var
	// PodIPs are the addresses of the pod, the primary first: those of its sandbox,
	// or of the node for a pod on the node's network.
	PodIPs []string
	// Images are the images of the pod's image volumes that the container mounts, by the
	// name of the volume, as the runtime has them. They are there.
	Images map[string]string
	// RuntimeHandler is the handler that the pod's sandbox runs under; "" is the default one.
	RuntimeHandler string
}

// Mounts are what a container gets from the node.
type Mounts struct {
	Mounts     []*runtimeapi.Mount
	Devices    []*runtimeapi.Device
	CDIDevices []*runtimeapi.CDIDevice
	// Annotations are told to the runtime, as device plugins want it.
	Annotations map[string]string
	// Release takes back what the node keeps for the start alone. The caller calls it once the
	// container has started, or will not start, and not while a start may be under way. Nil means
	// that nothing is kept.
	Release func() error
}

// mapped returns the mounts with the mapping of IDs of the container's user
// namespace, nil if it has none: so files have the owners in it that they have on
// the node (KEP-127).
func mapped(mounts []*runtimeapi.Mount, users *runtimeapi.UserNamespace) []*runtimeapi.Mount {
	if users == nil {
		return slices.Clone(mounts)
	}
	var with []*runtimeapi.Mount
	for _, m := range mounts {
		m = proto.CloneOf(m)
		m.UidMappings, m.GidMappings = users.GetUids(), users.GetGids()
		with = append(with, m)
	}
	return with
}
