package apistatus

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// Input is everything a status depends on. Compute reads it and never writes to
// it.
type Input struct {
	// Pod is the pod as it is to be, with the status that the source of pods has
	// of it, where others write their conditions. Required.
	Pod *v1.Pod
	// Previous is the status that was reported last, by whichever agent. Nil
	// means Pod.Status. Pass what Hold returned last, even if it has not been
	// delivered: what it says of ended containers may be the only record.
	Previous *v1.PodStatus
	// Status is what the runtime reports of the pod. Nil means that the runtime
	// knows nothing of it. Containers whose names are not in Pod are ignored.
	Status *runtime.PodStatus
	// Terminal means that no container of the pod will run again, whatever its
	// restart policy: it is being stopped or has been.
	Terminal bool
	// Ended means that the pod has been stopped and this is its last status. Then
	// no container waits that may have run: it ended as it did last, or as nobody
	// knows. A pod of which nothing runs has succeeded or failed, but for a static one
	// without a metadata.deletionTimestamp: nobody has deleted that, and an agent that
	// starts anew runs it again.
	Ended bool
	// StartsOver means that all containers of the pod are to run again, whatever has become
	// of each (KEP-5532): the pod has not ended.
	StartsOver bool
	// Probes holds the last results of the probes that are declared, by container
	// ID. A container without an entry has not been probed yet.
	Probes map[runtime.ContainerID]actions.ProbeResults
	// StartErrors holds what went wrong when a container was last to be started,
	// by container name. An entry is to go when the container has started; one
	// that is left over is ignored while nothing is to be started.
	StartErrors map[string]Problem
	// HostIPs are the node's addresses, the primary first. Empty leaves out what
	// follows from them.
	HostIPs []string
	// Devices are the devices that containers have, and how they are, by container name: their
	// allocatedResourcesStatus (KEP-4680).
	Devices map[string][]v1.ResourceStatus
	// RecursiveReadOnly says that the runtime can make read-only what is mounted below
	// a volume, for mounts that ask for it if possible.
	RecursiveReadOnly bool
	// Conditions are conditions of the pod that its agent decides on elsewhere:
	// PodResizePending, PodResizeInProgress, AllContainersRestarting. These types
	// are reported if and only if they are here; one of another type replaces the
	// one of its type that the pod has. One of a type that Compute decides on
	// itself is ignored. LastTransitionTime is filled in.
	Conditions []v1.PodCondition
	// Evicted is why the pod is put off the node, nil if it is not. It has failed
	// then, whatever its containers say. Pass it until the pod has ended.
	Evicted *Problem
	// Blocked is why the pod may not run, nil if it may. Containers that wait do
	// so for this reason.
	Blocked *Problem
	// Now is the time that conditions which change are given, and the start time
	// of a pod that has none. Zero leaves such times unset.
	Now time.Time
}

// Problem is something that keeps a container or a pod from running.
type Problem struct {
	// Reason is one word that programs act on, such as ErrImagePull.
	Reason Reason
	// Message says more to people. It is published: no secrets.
	Message string
}

// Reason is why a container waits or a pod does not run, one word as the
// Kubernetes API has it. Those listed here are the ones that Compute finds by
// itself. Why a start has failed it is told: the words for that are in package
// syncpod, and those of images in package image.
type Reason string

// Reasons for which a container waits that has not been tried.
const (
	// PodInitializing: init containers have to run first.
	PodInitializing Reason = "PodInitializing"
	// ContainerCreating: the container is about to be made.
	ContainerCreating Reason = "ContainerCreating"
	// Blocked: the pod may not run; see Input.Blocked.
	Blocked Reason = "Blocked"
)

// Reasons for which a container has ended that no runtime gave.
const (
	// StatusUnknown: the container ran, and nothing is left that says how it
	// ended. Its exit code is then 137, which nobody observed.
	StatusUnknown Reason = "ContainerStatusUnknown"
	// Completed: the container has done its part.
	Completed Reason = "Completed"
)

// Validate reports what makes in unusable: no pod. Compute has the zero status
// for such an Input.
func (in Input) Validate() error {
	if in.Pod == nil {
		return errors.New("input: Pod is required")
	}
	return nil
}

// previous is the status reported before.
func (in Input) previous() *v1.PodStatus {
	if in.Previous != nil {
		return in.Previous
	}
	return &in.Pod.Status
}
