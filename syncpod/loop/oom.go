package loop

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/oom"
)

// watchOOM tells of processes that are killed, until ctx ends.
func (l *Loop) watchOOM(ctx context.Context) {
	if err := l.config.OOM.Run(ctx, l.tellKill); err != nil && ctx.Err() == nil {
		l.config.Log.Error(err, "processes that are killed for lack of memory are not told of")
	}
}

// tellKill makes events of a kill: of the node if that is out of memory, as a kubelet does, and
// of the container if the process was in one of ours.
func (l *Loop) tellKill(k oom.Kill) {
	pod, container := l.containerOf(k)
	if k.System() {
		l.config.Log.Info("the node is out of memory", "process", k.Process, "pid", k.PID, "cgroup", k.Cgroup)
		l.nodeEvent("SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
	}
	if pod == nil {
		return
	}
	l.log(pod).Info("process killed for lack of memory", "container", container, "process", k.Process, "pid", k.PID)
	if l.config.Sync.Events == nil {
		return
	}
	why := "the memory limit was reached"
	if k.System() {
		why = "the node is out of memory"
	}
	l.config.Sync.Events.Eventf(containerReference(pod, container), v1.EventTypeWarning, "OOMKilling",
		"Process %s, PID %d, of container %s was killed: %s", k.Process, k.PID, container, why)
}

// containerOf returns the container that a process was in, by what the runtime has told of
// pods; a nil pod if it is none of theirs.
func (l *Loop) containerOf(k oom.Kill) (pod *v1.Pod, container string) {
	id := k.Container()
	if id == "" {
		return nil, ""
	}
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
