package syncpod

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/resize"
)

// The interfaces below are the parts of an agent that a Syncer calls. It calls them concurrently for
// different pods. They must not modify their arguments.

// ContainerLifecycle is called at the points of a container's life at which a kubelet calls its internal lifecycle. Managers
// of CPUs, memory, devices and accounts implement it. Each call ends with its context.
type ContainerLifecycle interface {
	// PreCreateContainer is called before each container is created, once its configuration is complete. It may change
	// config, which is what the runtime gets. After an error the container is not created, with the reason
	// PreCreateHookError, and the call is repeated after a back-off.
	PreCreateContainer(ctx context.Context, pod *v1.Pod, container *v1.Container, config *runtimeapi.ContainerConfig) error
	// PreStartContainer is called after a container is created, and before it is started, with the ID that the runtime
	// has given it. After an error the container is not started, with the reason PreStartHookError; the start is repeated
	// after a back-off with another container.
	PreStartContainer(ctx context.Context, pod *v1.Pod, container *v1.Container, id string) error
	// PreStopContainer is called before a started container is stopped, before its preStop handler: at least once, and
	// again if the stop is repeated. It is not called for a container that exits by itself. pod is nil if its spec is
	// unknown. An error is logged, and prevents nothing.
	PreStopContainer(ctx context.Context, pod *v1.Pod, container, id string) error
	// PostStopContainer is called after a container has stopped, or was found to have exited: at least once, after an
	// error again in the pod's next sync, and again by the next agent if the runtime still has the container. A
	// container from an earlier agent is included. A container that the runtime loses at once is not. pod is nil if
	// its spec is unknown. An error is logged, and prevents nothing.
	PostStopContainer(ctx context.Context, pod *v1.Pod, container, id string) error
}

// Admitter is a check that a pod must pass before it runs and while it runs. A pod that does not
// pass is reported as pending, its containers are stopped, and the check is repeated later. Reject
// a pod permanently before it is synced: a Loop calls its Config.Admission for that.
type Admitter interface {
	// AdmitPod returns nil if the pod may run.
	AdmitPod(ctx context.Context, pod *v1.Pod) *Rejection
}

// Rejection is why a pod may not run. Reason and message are published in the pod's status. A
// pod that agent.Config.Admission rejects is Failed for good, and its published message begins
// with "Pod was rejected: ". A pod that an [Admitter] rejects is Pending, and is admitted later
// if the Admitter then returns nil.
type Rejection struct {
	// Reason is one word that programs match.
	Reason string
	// Message is the explanation for people.
	Message string
}

// Network reports whether the node's network is ready for pods.
type Network interface {
	// NetworkReady returns nil, or why the network is not ready.
	NetworkReady(ctx context.Context) error
}

// Cgroups manages pod cgroups. A *tree.Tree implements it.
type Cgroups interface {
	// EnsureCgroup creates or updates a pod's cgroup, and returns its name in the form of the runtime's
	// cgroup driver. It is called in each sync of a pod that may run.
	EnsureCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error)
	// RaiseCgroup raises the limits for a pod's cgroup and lowers none. It is called before containers are resized,
	// and EnsureCgroup afterwards: limits go up from the pod to its containers, and down the other way (KEP-1287).
	RaiseCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error)
	// RemovePod frees a pod's cgroup. It succeeds if there is nothing to free. It is called when the pod has stopped for good,
	// until it succeeds, and again when the pod is removed. For a pod that was deleted while no agent ran, it is called only
	// then.
	RemovePod(ctx context.Context, pod types.UID) error
	// PodsCgroup returns the path of the cgroup of all pods in each of the kernel's trees, such as /kubepods, "" if there
	// is none. The signal allocatableMemory.available is read there.
	PodsCgroup() string
}

// Allocations decides which resources are allocated to a pod (KEP-1287).
type Allocations interface {
	// Allocate decides on a resize that the pod requests, if there is one, and returns the allocation. It is called in
	// each sync of a pod that may run. If it fails, the sync does nothing else.
	Allocate(ctx context.Context, pod *v1.Pod) (resize.Answer, error)
	// Allocated returns the pod with its allocated resources, without a new decision.
	Allocated(pod *v1.Pod) *v1.Pod
	// Notify passes a function that requests a sync of a pod. It is called once, before any other method.
	Notify(changed func(pod types.UID))
	// RemovePod frees a pod's resources, when [Cgroups].RemovePod would be called. It succeeds if there is nothing to free.
	RemovePod(ctx context.Context, pod types.UID) error
}

// Devices allocates devices of the node to containers. A *device.Keeper implements all but the allocation itself, and can be embedded.
type Devices interface {
	// Allocate returns a container's devices. It is called before each creation of the container, and should return the
	// same devices as long as the pod exists. If it fails, the Syncer does not create the container. An error must not
	// contain a value of a variable.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allocation, error)
	// Choose chooses the devices that Allocate returns later, if it can do so without waiting. It is called before the
	// container's image is pulled, so that statuses report the devices during the pull. Errors of Choose are ignored,
	// because Allocate reports them again.
	Choose(ctx context.Context, pod *v1.Pod, container *v1.Container) error
	// Devices returns container allocatedResourcesStatus by name (KEP-4680), none for a pod without
	// devices. It is called for each status, and must return immediately.
	Devices(pod *v1.Pod) map[string][]v1.ResourceStatus
	// KeptPods returns the pods that have devices, so that the devices of pods that were deleted while no agent ran are
	// freed. It is called at an agent's start, and must return soon.
	KeptPods() ([]types.UID, error)
	// Notify stores a function to call for each pod whose devices have changed. It is called once, before any other method.
	Notify(changed func(pod types.UID))
	// RemovePod frees a pod's devices, when [Cgroups].RemovePod would be called. It succeeds if there is nothing to free.
	RemovePod(ctx context.Context, pod types.UID) error
}

// UserNamespaces allocates IDs of the node to pods with user namespaces of their own (KEP-127).
type UserNamespaces interface {
	// UserNamespace returns the ID mapping of a pod, nil for a pod in the node's user namespace. It is called before a
	// sandbox or container is created, with the runtime handler for the pod, and must return the same mapping as long as
	// the pod exists. If it fails, no part of the pod is started.
	UserNamespace(ctx context.Context, pod *v1.Pod, handler string) (*runtimeapi.UserNamespace, error)
	// RemovePod frees the IDs of a pod, when [Cgroups].RemovePod would be called. It succeeds if there is nothing to free.
	RemovePod(ctx context.Context, pod types.UID) error
}

// PullSecrets returns a pod's image pull secrets, in the order of spec.imagePullSecrets. With an
// error, which names the missing ones, it returns the existing ones. The error becomes an event,
// and the pod continues with these; the error must not contain a secret. It is called when an image
// must be pulled, or was pulled with credentials and is new to the pod. The start waits for it: it has
// no deadline of its own, and must return when ctx ends.
type PullSecrets interface {
	PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error)
}

// ImagePullSecrets may be implemented by a PullSecrets that looks credentials up for each image. It then is called in place of
// PullSecrets, so that nothing is looked up for the images of the pod that need no credentials.
type ImagePullSecrets interface {
	PullSecretsFor(ctx context.Context, pod *v1.Pod, image string) ([]v1.Secret, error)
}
