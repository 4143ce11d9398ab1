package podworkers

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// UpdateType says what brought an update about.
type UpdateType uint8

const (
	// Sync looks at a pod again although nothing was heard of it.
	Sync UpdateType = iota
	// Changed tells that the pod's definition or status at its source changed.
	Changed
	// Create tells that the pod is new at its source. For a pod that is already
	// stopping it means that a pod with the same UID follows it.
	Create
	// Kill asks for the pod to be stopped.
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

// Update is news of one pod. Of several that arrive while the pod is being
// worked on, only the last is kept: each says all there is to say.
type Update struct {
	Type UpdateType
	// Pod is the pod as its source has it. It is kept and lent to the work that
	// follows, and never written to. Required unless RuntimePod is set.
	Pod *v1.Pod
	// RuntimePod is a pod that only the runtime knows. It can only be killed:
	// updates of another type are ignored. Beside a Pod it tells, in the first update
	// of that, that the runtime may run something of the pod, which an earlier agent
	// has started: a static pod that has yet to have its turn is then not finished
	// before it was stopped. In later ones it is ignored.
	RuntimePod *RuntimePod
	// Status is what the runtime last reported of the pod, nil if it is not known.
	// It is asked once, when a pod that is over at its source is first seen: if
	// nothing of it runs, it was stopped before, and only cleaning up is left.
	Status *runtime.PodStatus
	// Stop says how to stop the pod. It is heeded in updates that make the pod
	// stop, or come while it does; in others the request counts as done at once.
	Stop *StopRequest
}

// uid returns the UID of the pod that the update is of.
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

// RuntimePod identifies a pod that only the runtime knows. A Loop makes a
// syncpod.RuntimePod of it, which has its status besides.
type RuntimePod struct {
	UID       types.UID
	Name      string
	Namespace string
}

// StopRequest says how to stop a pod.
type StopRequest struct {
	// ID is handed back in Effects.Stopped when the pod has stopped, exactly once.
	// Zero asks for no answer. Only for a Set: Workers, and so a Loop, ignore it.
	ID StopID
	// Evict tells that the pod is evicted: what it wrote may be removed, even while
	// its source still wants it. It is heeded only in the request that begins the stop;
	// in later ones it is ignored.
	Evict bool
	// GracePeriodSeconds is the time the pod has to stop, nil for the pod's own.
	// It can only shorten the time the pod was given before. In seconds; 0 and less
	// count as 1.
	GracePeriodSeconds *int64
	// Report is what is to be reported of the pod, nil for nothing but its
	// containers' ends. Of several the first counts.
	Report *StopReport
}

// StopReport is why the node stops a pod that its source still wants. The pod is
// reported as Failed with it, whatever its containers' ends.
type StopReport struct {
	// Reason is one word for programs, such as Evicted, Preempting or Terminated.
	Reason string
	// Message is for people.
	Message string
	// Disruption tells that the node is in need, and not the pod at fault: the pod is
	// reported with the condition DisruptionTarget, too, whose reason is
	// TerminationByKubelet.
	Disruption bool
}

// StopID identifies a request to whoever made it.
type StopID uint64

// WorkType is what is to be done for a pod.
type WorkType uint8

const (
	// SyncPod brings the pod to where its definition says.
	SyncPod WorkType = iota
	// SyncTerminatingPod stops the pod and all its containers.
	SyncTerminatingPod
	// SyncTerminatingRuntimePod stops a pod that only the runtime knows.
	SyncTerminatingRuntimePod
	// SyncTerminatedPod cleans up after a pod that has stopped.
	SyncTerminatedPod
	// RemovePod removes what the node has of an orphaned pod.
	RemovePod
)

// String returns the name of the call.
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

// Work is one thing to be done for one pod. It is in flight from the call of
// Next that returned it to that of Done or Abandon.
type Work struct {
	UID  types.UID
	Type WorkType
	// Revision tells this work from all other.
	Revision Revision
	// UpdateType is that of the update this work follows.
	UpdateType UpdateType
	// Pod is the pod, nil for SyncTerminatingRuntimePod, and for RemovePod of a pod whose
	// definition is not known.
	Pod *v1.Pod
	// RuntimePod is set where Pod is nil.
	RuntimePod *RuntimePod
	// Removal is the reason of a RemovePod.
	Removal Removal
	// GracePeriodSeconds is the time that SyncTerminatingPod has, nil if nobody has
	// asked for the pod to be stopped and its own grace period holds.
	GracePeriodSeconds *int64
	// Deadline is when SyncTerminatingPod has to be over, counted from the requests:
	// the earliest of all. If there was none, the pod's own time is counted from
	// when it was first told to stop. Zero for other work.
	Deadline time.Time
	// Report is what is to be reported of the pod, for SyncTerminatingPod and
	// SyncTerminatedPod; see StopRequest.Report.
	Report *StopReport
}

// Removal is why a pod is removed from the node.
type Removal uint8

const (
	// NotRemoved: the pod is not removed.
	NotRemoved Removal = iota
	// Unwanted: no source wants the pod any more.
	Unwanted
	// Replaced: a source wants a new pod with the UID of the pod.
	Replaced
	// Unknown: no source wants the pod, and the Set knew nothing of it: an earlier agent
	// has left it.
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
		return "an earlier agent has left the pod, and no source wants it"
	}
	return ""
}

// Revision counts the work that a Set has handed out, from 1.
type Revision uint64

// Outcome is how work ended.
type Outcome uint8

const (
	// Failed: the work is to be done again.
	Failed Outcome = iota
	// Succeeded: the work is done.
	Succeeded
	// SucceededTerminal: SyncPod found that the pod is over and is to be stopped.
	// After other work it is the same as Succeeded.
	SucceededTerminal
)

// Effects lists what the caller must do after a change. The zero Effects ask for
// nothing.
type Effects struct {
	// Work: the pod may have work; call Next.
	Work bool
	// Retry: the work failed and no news is waiting; call Requeue after a while.
	Retry bool
	// Interrupt: cancel the work in flight, other work is more urgent.
	Interrupt bool
	// Stopped are the requests that are done.
	Stopped []StopID
	// Successors are other pods that this one held up; call Next for them.
	Successors []types.UID
}
