package timeline

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod"
)

// sink receives pod statuses, and forwards them.
type sink struct {
	*Timeline
	next syncpod.StatusSink // nil if there is none
}

// SetPodStatus never fails by itself.
func (s sink) SetPodStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.with(pod.UID, pod, func(r *record) { r.status(&status) })
	if s.next == nil {
		return nil
	}
	return s.next.SetPodStatus(ctx, pod, status)
}

// An instance is one run of a container.
type instance struct {
	id    string
	begin time.Time
	// entry is nil once it has ended.
	entry *entry
}

// status records the changes in a status.
func (r *record) status(s *v1.PodStatus) {
	r.pod.Phase, r.pod.Restarts = string(s.Phase), 0
	if r.phase == podworkers.Syncing && s.Phase != "" {
		r.state(entry{Kind: kindPhase, Name: string(s.Phase), Reason: s.Reason, Failed: s.Phase == v1.PodFailed})
	}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			r.container(&list[i])
		}
	}
}

func (r *record) container(c *v1.ContainerStatus) {
	r.pod.Restarts += int(c.RestartCount)
	r.ended(c.Name, c.LastTerminationState.Terminated)
	switch {
	case c.State.Running != nil:
		r.running(c.Name, c.ContainerID, c.State.Running.StartedAt.Time)
	case c.State.Terminated != nil:
		r.ended(c.Name, c.State.Terminated)
		if last := r.open[stateOf(c.Name)]; last != nil && last.Kind == kindWait {
			r.endState(c.Name, time.Now())
		}
	case c.State.Waiting != nil:
		r.state(entry{Container: c.Name, Kind: kindWait, Name: c.State.Waiting.Reason, Failed: isTrouble(c.State.Waiting.Reason)})
	}
}

// isTrouble reports whether a container waits for a reason other than its start.
func isTrouble(reason string) bool {
	return reason != "ContainerCreating" && reason != "PodInitializing"
}

// running begins an instance.
func (r *record) running(container, id string, at time.Time) {
	if last := r.runs[container]; last != nil && last.id == id {
		return
	}
	if unknown(at) {
		at = time.Now()
	}
	r.runs[container] = &instance{id: id, begin: at, entry: r.state(entry{Container: container, Kind: kindRun, Name: "Running", Begin: at})}
}

// ended ends an instance, or adds one that was never observed running.
func (r *record) ended(container string, t *v1.ContainerStateTerminated) {
	if t == nil {
		return
	}
	end, begin := t.FinishedAt.Time, t.StartedAt.Time
	if unknown(end) {
		end = time.Now()
	}
	if unknown(begin) {
		begin = end
	}
	last := r.runs[container]
	if last == nil || last.id != t.ContainerID {
		if last != nil && !begin.After(last.begin) {
			return // it was before
		}
		last = &instance{id: t.ContainerID, begin: begin, entry: r.state(entry{Container: container, Kind: kindRun, Name: "Running", Begin: begin})}
		r.runs[container] = last
	}
	if last.entry == nil {
		return
	}
	r.endState(container, end)
	r.endProbes(container, end)
	last.entry.Name, last.entry.Reason, last.entry.Failed = "Ran", ending(t), t.ExitCode != 0
	last.entry = nil
}

// ending describes an exit, without the container's own message.
func ending(t *v1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Signal != 0 {
		text += fmt.Sprintf(", signal %d", t.Signal)
	}
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	return cut(text)
}

// unknown reports whether a time cannot be a container's start.
func unknown(at time.Time) bool { return at.Unix() <= 0 }
