package loop

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/oom"
)

// maxLateKills bounds the kills whose container is yet to be known, and lateKillPauses are the
// times until it is looked for again: a container may be killed before it was seen to run.
const maxLateKills = 16

func lateKillPauses() []time.Duration {
	return []time.Duration{time.Second, 4 * time.Second, 10 * time.Second}
}

// watchOOM tells of processes that are killed, until ctx ends.
func (l *Loop) watchOOM(ctx context.Context) {
	late := make(chan struct{}, maxLateKills)
	err := l.config.OOM.Run(ctx, func(k oom.Kill) {
		if k.System() {
			l.config.Log.Info("the node is out of memory", "process", k.Process, "pid", k.PID, "cgroup", k.Cgroup)
			l.nodeEvent("SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
		}
		if l.tellKill(k) {
			return
		}
		select {
		case late <- struct{}{}:
			l.children.Go(func() { defer func() { <-late }(); l.tellLate(ctx, k) })
		default:
		}
	})
	if err != nil && ctx.Err() == nil {
		l.config.Log.Error(err, "processes that are killed for lack of memory are not told of")
	}
}

// tellLate tells of a kill once its container is known, if that is soon.
func (l *Loop) tellLate(ctx context.Context, k oom.Kill) {
	for _, pause := range lateKillPauses() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if l.tellKill(k) {
			return
		}
	}
}

// tellKill makes an event of a kill in one of our containers. It returns false if the container
// is not known.
func (l *Loop) tellKill(k oom.Kill) bool {
	if k.Container() == "" {
		return true
	}
	pod, container := l.containerOf(k)
	if pod == nil {
		return false
	}
	l.log(pod).Info("process killed for lack of memory", "container", container, "process", k.Process, "pid", k.PID)
	if l.config.Sync.Events == nil {
		return true
	}
	why := "the memory limit was reached"
	if k.System() {
		why = "the node is out of memory"
	}
	l.config.Sync.Events.Eventf(containerReference(pod, container), v1.EventTypeWarning, "OOMKilling",
		"Process %s, PID %d, of container %s was killed: %s", k.Process, k.PID, container, why)
	return true
}

// containerOf returns the container that a process was in, by what the runtime has told of
// pods; a nil pod if it is none of theirs.
func (l *Loop) containerOf(k oom.Kill) (pod *v1.Pod, container string) {
	id := k.Container()
	for _, p := range l.allPods() {
		status := l.lastStatus(p.UID)
		if status == nil {
			continue
		}
		for i := range status.Containers {
			if c := &status.Containers[i]; c.ID.ID == id {
				return p, c.Name
			}
		}
	}
	return nil, ""
}

// allPods returns the pods that the workers know, in the order of their UIDs.
func (l *Loop) allPods() []*v1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	var pods []*v1.Pod
	for _, uid := range l.uids() {
		pods = append(pods, l.workerPods[uid].pod)
	}
	return pods
}
