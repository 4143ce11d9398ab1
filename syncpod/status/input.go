package status

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// Input has all facts on which a status depends. GeneratePodStatus does not modify it.
type Input struct {
	// Pod is the desired pod, with the status from its source, in which other components write their
	// conditions. Required.
	Pod *v1.Pod
	// Previous is the last reported status, from this or an earlier agent. Nil means Pod.Status.
	// Pass Merge's last result even if it has not been delivered: it may be the only record for
	// exited containers.
	Previous *v1.PodStatus
	// Status is the pod's status in the runtime. Nil means that the runtime has no object of the pod.
	// Containers whose names are not in Pod are ignored.
	Status *runtime.PodStatus
	// Terminal means that no container in the pod will run again, whatever its restart policy: the pod
	// is being stopped or has been stopped.
	Terminal bool
	// Ended means that the pod has been stopped and this is its last status. Then a container that may
	// have run does not wait: it is reported with its last exit, or as lost. The pod has succeeded or
	// failed, except for a static pod without a metadata.deletionTimestamp: it was not deleted, and a
	// restarted agent runs it again.
	Ended bool
	// StartsOver means that all containers in the pod will run again, whatever their exits
	// (KEP-5532): the pod has not ended.
	StartsOver bool
	// Restarting are the instances that were stopped in order to start their containers again: those containers
	// will run again, whatever their exit codes. It is actions.Input.Restarting.
	Restarting []runtime.ContainerID
	// Probes holds the declared probes' last results, by container ID. A container without an entry
	// has not been probed yet.
	Probes map[runtime.ContainerID]actions.ProbeResults
	// StartErrors holds the error from each container's last start, by container name. The caller removes an entry
	// when the container has started. Entries are ignored while no container should start.
	StartErrors map[string]Problem
	// HostIPs are the node's addresses, the primary first. If empty, the fields that depend on them
	// are unset.
	HostIPs []string
	// Devices are the containers' devices and their health, by container name: their
	// allocatedResourcesStatus (KEP-4680).
	Devices map[string][]v1.ResourceStatus
	// RecursiveReadOnly means that the runtime supports recursive read-only mounts, for mounts that
	// request them if possible.
	RecursiveReadOnly bool
	// Conditions are the agent's pod conditions: PodResizePending, PodResizeInProgress,
	// AllContainersRestarting. A condition with these types is reported if and only if it is here. A
	// condition with another type replaces the pod's condition with that type, unless GeneratePodStatus
	// decides that type itself. LastTransitionTime is filled in.
	Conditions []v1.PodCondition
	// Evicted is why the pod is evicted, nil if it is not evicted. The pod's phase is then Failed,
	// whatever its containers' state. Pass it until the pod has ended.
	Evicted *Problem
	// Blocked is why the pod may not run, nil if it may. Waiting containers have this reason.
	Blocked *Problem
	// Now is the transition time for changed conditions, and the start time for a pod that has
	// none. Zero leaves these times unset.
	Now time.Time
}

// Problem is the reason for which a container or a pod does not run.
type Problem struct {
	// Reason is one word that programs match, such as ErrImagePull.
	Reason Reason
	// Message is for people. It is published and must not contain secrets.
	Message string
}

// Reason is why a container waits or a pod does not run, as one word from the Kubernetes API.
// GeneratePodStatus sets the reasons listed here itself. The caller passes the reasons for failed starts:
// they are in packages container/start and image.
type Reason string

// Reasons for which a container waits before its first start.
const (
	// PodInitializing: init containers must run first.
	PodInitializing Reason = "PodInitializing"
	// ContainerCreating: the container is about to be created.
	ContainerCreating Reason = "ContainerCreating"
	// Blocked: the pod may not run; see Input.Blocked.
	Blocked Reason = "Blocked"
)

// Reasons for an exit that no runtime reported.
const (
	// StatusUnknown: the container ran, and no record for its exit exists. The exit code is
	// then 137.
	StatusUnknown Reason = "ContainerStatusUnknown"
	// Completed: the container has completed.
	Completed Reason = "Completed"
)

// OOMKilled is a runtime's reason for the exit from a container that the kernel killed because memory
// was short.
const OOMKilled Reason = "OOMKilled"

// Validate returns an error if in has no pod. GeneratePodStatus returns the zero status for such an Input.
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
