package loop

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/oom"
	"github.com/podsync/podsync/syncpod/internal/podref"
)

// maxLateKills bounds the kills whose container is yet to be known, and lateKillPauses are the
// times until it is looked for again: a container may be killed before it was seen to run.
const maxLateKills = 16

func lateKillPauses() []time.Duration {
	return []time.Duration{time.Second, 4 * time.Second, 10 * time.Second}
}

// oomReporter makes events of processes that the kernel has killed for lack of memory.
type oomReporter struct {
	watcher OOMWatcher
	table   *podTable
}

// run tells of processes that are killed, until ctx ends.
func (r *oomReporter) run(ctx context.Context) {
	var pending sync.WaitGroup
	defer pending.Wait()
	late := make(chan struct{}, maxLateKills)
	err := r.watcher.Run(ctx, func(k oom.Kill) {
		if k.System() {
			r.table.logger.Info("the node is out of memory", "process", k.Process, "pid", k.PID, "cgroup", k.Cgroup)
			r.table.nodeEvent("SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
		}
		if r.tellKill(k) {
			return
		}
		select {
		case late <- struct{}{}:
			pending.Go(func() { defer func() { <-late }(); r.tellLate(ctx, k) })
		default:
		}
	})
	if err != nil && ctx.Err() == nil {
		r.table.logger.Error(err, "processes that are killed for lack of memory are not told of")
	}
}

// tellLate tells of a kill once its container is known, if that is soon.
func (r *oomReporter) tellLate(ctx context.Context, k oom.Kill) {
	for _, pause := range lateKillPauses() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if r.tellKill(k) {
			return
		}
	}
}

// tellKill makes an event of a kill in one of our containers. It returns false if the container
// is not known.
func (r *oomReporter) tellKill(k oom.Kill) bool {
	if k.Container() == "" {
		return true
	}
	pod, container := r.containerOf(k)
	if pod == nil {
		return false
	}
	r.table.log(pod).Info("process killed for lack of memory", "container", container, "process", k.Process, "pid", k.PID)
	if r.table.events == nil {
		return true
	}
	why := "the memory limit was reached"
	if k.System() {
		why = "the node is out of memory"
	}
	r.table.events.Eventf(podref.ContainerNamed(pod, container), v1.EventTypeWarning, "OOMKilling",
		"Process %s, PID %d, of container %s was killed: %s", k.Process, k.PID, container, why)
	return true
}

// containerOf returns the container that a process was in, by what the runtime has told of
// pods; a nil pod if it is none of theirs.
func (r *oomReporter) containerOf(k oom.Kill) (pod *v1.Pod, container string) {
	id := k.Container()
	for _, p := range r.table.all() {
		status := r.table.lastStatus(p.UID)
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
