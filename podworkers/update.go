package podworkers

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// UpdateType is the reason for an update.
type UpdateType uint8

const (
	// Sync requests a sync of the pod without any change.
	Sync UpdateType = iota
	// Changed reports a change to the pod's definition, or to its status at its source.
	Changed
	// Create reports a pod that is new at its source. If a pod with its UID is
	// stopping, the new pod starts after the old one is forgotten.
	Create
	// Kill requests the pod's termination.
	Kill
)

// String returns the type in one lower-case word.
func (t UpdateType) String() string {
	switch t {
	case Changed:
		return "update"
	case Create:
		return "create"
	case Kill:
		return "kill"
	}
	return "sync"
}

// Update reports one pod's current state, or requests its termination. While work for the pod
// is in flight only the last update is kept, because each one is complete.
type Update struct {
	Type UpdateType
	// Pod is the pod as its source has it. The Set keeps the pointer and passes it to later
	// work; the pod must not be modified. Required unless RuntimePod is set.
	Pod *v1.Pod
	// RuntimePod without a Pod identifies a pod that only the runtime knows. Such a pod can
	// only be killed: other types of updates are ignored.
	//
	// RuntimePod together with a Pod is used only in the pod's first update: the runtime may have
	// containers in the pod that an earlier agent started. If that pod is static and is deleted while
	// it waits for another pod with its name, its containers are stopped before it finishes.
	RuntimePod *RuntimePod
	// Status is the pod's last status from the runtime, nil if there is none. It is used only in the
	// first update to a pod that has finished at its source: if no container runs, an earlier agent
	// has stopped the pod, and only the cleanup is left.
	Status *runtime.PodStatus
	// Stop states how to stop the pod. It is used in updates that make the pod stop, or that arrive
	// while it stops. In other updates, the request is answered at once.
	Stop *StopRequest
}

// uid returns the UID of the pod.
func (u Update) uid() (types.UID, error) {
	switch {
	case u.Pod != nil && u.Pod.UID != "":
		return u.Pod.UID, nil
	case u.Pod != nil:
		return "", fmt.Errorf("update: pod %s/%s has no metadata.uid", u.Pod.Namespace, u.Pod.Name)
	case u.RuntimePod != nil && u.RuntimePod.UID != "":
		return u.RuntimePod.UID, nil
	case u.RuntimePod != nil:
		return "", fmt.Errorf("update: runtime pod %s/%s has no UID", u.RuntimePod.Namespace, u.RuntimePod.Name)
	}
	return "", errors.New("update: one of Pod and RuntimePod is required")
}

// RuntimePod identifies a pod that only the runtime knows. syncpod.RuntimePod also has its status.
type RuntimePod struct {
	UID       types.UID
	Name      string
	Namespace string
}

// StopRequest states how to stop a pod.
type StopRequest struct {
	// ID is returned once in Effects.Stopped, when the pod has stopped. Zero requests no
	// answer. Workers ignore it: Workers.KillPod waits for the answer itself.
	ID StopID
	// Evict marks the pod as evicted: the agent may remove its volumes and logs although its
	// source still wants it. Only the request that begins the stop can set it.
	Evict bool
	// GracePeriodSeconds is the grace period in seconds; nil means the pod's own grace period, and
	// values below 1 mean 1. It can only shorten the grace period of earlier requests.
	GracePeriodSeconds *int64
	// Report is the reason for the pod's status. If it is nil, the status has only the
	// containers' results. Only a pod's first report is used.
	Report *StopReport
}

// StopReport is the reason why the node stops a pod that its source still wants. The pod's
// status is Failed with this reason, whatever its containers' exit codes are.
type StopReport struct {
	// Reason is status.reason of the pod, such as Evicted, Preempting or Terminated.
	Reason string
	// Message is status.message of the pod.
	Message string
	// Disruption adds the condition DisruptionTarget with the reason TerminationByKubelet:
	// the node needs the pod's resources, and the pod has not failed by itself (KEP-3329).
	Disruption bool
}

// StopID identifies a stop request. The caller of the Set chooses it.
type StopID uint64

// WorkType is the call that a pod needs.
type WorkType uint8

const (
	// SyncPod brings the pod to its definition's state.
	SyncPod WorkType = iota
	// SyncTerminatingPod stops the pod and all its containers.
	SyncTerminatingPod
	// SyncTerminatingRuntimePod stops a pod that only the runtime knows.
	SyncTerminatingRuntimePod
	// SyncTerminatedPod cleans up after a pod that has stopped.
	SyncTerminatedPod
	// RemovePod removes an orphaned pod from the node.
	RemovePod
)

// String returns the call's name.
func (t WorkType) String() string {
	switch t {
	case SyncTerminatingPod:
		return "SyncTerminatingPod"
	case SyncTerminatingRuntimePod:
		return "SyncTerminatingRuntimePod"
	case SyncTerminatedPod:
		return "SyncTerminatedPod"
	case RemovePod:
		return "RemovePod"
	}
	return "SyncPod"
}

// Work is one call for one pod. It is in flight from the call to Next that returns it until Done or
// Abandon.
type Work struct {
	UID  types.UID
	Type WorkType
	// revision is unique among the work of a Set.
	revision uint64
	// UpdateType is the type of the update that led to this work.
	UpdateType UpdateType
	// Pod is the pod, nil for SyncTerminatingRuntimePod, and for RemovePod of a pod whose
	// definition is not known.
	Pod *v1.Pod
	// RuntimePod is set where Pod is nil.
	RuntimePod *RuntimePod
	// Keep is set for a SyncTerminatingRuntimePod that a SyncTerminatedPod follows. The caller must keep its memory of the pod until
	// then.
	Keep bool
	// Removal is the reason for a RemovePod.
	Removal Removal
	// GracePeriodSeconds is SyncTerminatingPod's grace period. Nil means the pod's own grace
	// period: there was no stop request.
	GracePeriodSeconds *int64
	// Deadline is the time by which SyncTerminatingPod must have stopped the pod: the earliest
	// deadline of all stop requests. Without a request the pod's grace period begins with the first
	// SyncTerminatingPod. Zero for other work.
	Deadline time.Time
	// Report is StopRequest.Report, for SyncTerminatingPod and SyncTerminatedPod.
	Report *StopReport
}

// Removal is the reason why a pod is removed from the node.
type Removal uint8

const (
	// NotRemoved means that the pod is not removed.
	NotRemoved Removal = iota
	// Unwanted means that no source wants the pod any more.
	Unwanted
	// Replaced means that a source wants a new pod with the UID of the pod.
	Replaced
	// Unknown means that an earlier agent left the pod behind: no source wants it, and the Set did not know it.
	Unknown
)

// String returns the reason in a few words.
func (r Removal) String() string {
	switch r {
	case Unwanted:
		return "no source wants the pod"
	case Replaced:
		return "a source wants a new pod with its UID"
	case Unknown:
		return "an earlier agent left the pod behind, and no source wants it"
	}
	return ""
}

// Outcome is the result of work.
type Outcome uint8

const (
	// Failed means that the work must be retried.
	Failed Outcome = iota
	// Succeeded means that the work is done.
	Succeeded
	// SucceededTerminal means that SyncPod found that the pod has finished; the pod is stopped next.
	// For other work it is the same as Succeeded.
	SucceededTerminal
)

// Effects lists what the caller must do after a change. The zero value requires nothing.
type Effects struct {
	// Work means that the pod may have work: call Next.
	Work bool
	// Retry means that the work failed and no update is pending: call Requeue after a back-off.
	Retry bool
	// Interrupt means that other work is more urgent: cancel the work in flight.
	Interrupt bool
	// Stopped are the stop requests to answer.
	Stopped []StopID
	// Successors are other pods that waited for this one: call Next for them.
	Successors []types.UID
}
