package container

import (
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// MountRequest requests the mounts for one container that is about to be created. The receiver
// must not modify it.
type MountRequest struct {
	// Pod is the pod, and Container one among its init, regular or ephemeral
	// containers. Both are required.
	Pod       *v1.Pod
	Container *v1.Container
	// Attempt counts the containers with this name in the pod, from 0. It distinguishes one
	// instance's resources.
	Attempt uint32
	// Env are the variables for $(NAME) in a subPathExpr.
	Env []env.Var
	// PodIPs are the pod's addresses, the primary first: its sandbox's, or the node's for a pod
	// on the node's network.
	PodIPs []string
	// Images are the runtime's references for the image volumes that the container mounts, by
	// volume name. The images are present.
	Images map[string]string
	// RuntimeHandler is the pod's sandbox handler; "" means the default.
	RuntimeHandler string
}

// Mounts are the node's resources that a container gets.
type Mounts struct {
	Mounts     []*runtimeapi.Mount
	Devices    []*runtimeapi.Device
	CDIDevices []*runtimeapi.CDIDevice
	// Annotations are passed to the runtime, for device plugins.
	Annotations map[string]string
	// Release frees resources that the node keeps only for the start. The caller calls it once the
	// container has started, or will not start, and not while a start may be in progress. Nil means
	// that there are none.
	Release func() error
}

// mapped returns the mounts with the ID mapping for the container's user namespace, nil if it
// has none, so that files have the same owners in the container as on the node (KEP-127).
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
