package syncpod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/status"
)

// EventDeadlineExceeded is also the reason in the pod's status, as in a kubelet.
const EventDeadlineExceeded = "DeadlineExceeded"

// expire fails a pod that has been active for longer than its activeDeadlineSeconds, whatever its
// containers do. A pod that has finished is left as it is.
func (w gathering) expire() {
	until := w.activeUntil()
	if until.IsZero() || time.Now().Before(until) || w.pod.DeletionTimestamp != nil || w.memory.status.ended() || ask(w.memory, (*memory.Pod).Evicted) != nil {
		return
	}
	const message = "Pod was active on the node longer than the specified deadline"
	w.memory.do(func(p *memory.Pod) { p.Evict(&status.Problem{Reason: EventDeadlineExceeded, Message: message}, false) })
	w.eventf(podref.Pod(w.pod), v1.EventTypeNormal, EventDeadlineExceeded, "%s", message)
}

// activeUntil returns when the pod's active deadline ends, zero if it has none. It counts from the
// reported start time, which outlives the agent.
func (o *observedPod) activeUntil() time.Time {
	bound := o.pod.Spec.ActiveDeadlineSeconds
	start := o.memory.status.startTime()
	if start.IsZero() && o.pod.Status.StartTime != nil { // this agent has not reported a status yet
		start = o.pod.Status.StartTime.Time
	}
	if bound == nil || start.IsZero() {
		return time.Time{}
	}
	return start.Add(time.Duration(*bound) * time.Second)
}
