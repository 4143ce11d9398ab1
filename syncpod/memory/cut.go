package memory

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

// A start ends with the call that requests it: a runtime that loses its caller, for example
// because the agent is killed, aborts the start. It then reports that the container has exited,
// with its own error and without a start time. Most often no process has run; containerd has
// been observed to kill a process that had just begun. Such a start does not count as the run
// of a container that must run only once, because the container must run at least once; see
// "What runs once" in docs/FAILURES.md.

// SetAsideCutStarts returns a status without the instances whose start was cut short. It keeps
// their attempt numbers, and clears StartRequested of every other instance that has left the created
// state. It does not remove the instances: containerd may refuse that until it is restarted, if it
// has lost a task of theirs.
func (p *Pod) SetAsideCutStarts(status *runtime.PodStatus) *runtime.PodStatus {
	open, cut := map[string]bool{}, map[string]bool{}
	for i := range status.Containers {
		c := &status.Containers[i]
		isCut := p.Instances.isCut(c)
		if !isCut && c.State != runtime.ContainerCreated {
			continue
		}
		open[c.ID.ID] = true
		if isCut {
			cut[c.ID.ID] = true
		}
		p.Containers.of(c.Name).used(c.Attempt)
	}
	for _, inst := range p.Instances {
		if !open[inst.id] {
			inst.marks &^= StartRequested
		}
	}
	return without(status, cut)
}

// WithoutCutStarts returns a status without the instances whose start was aborted. Use it for a pod's last
// report: the runtime's error about such an instance is not a container exit.
func (i Instances) WithoutCutStarts(status *runtime.PodStatus) *runtime.PodStatus {
	if status == nil {
		return nil
	}
	cut := map[string]bool{}
	for at := range status.Containers {
		if c := &status.Containers[at]; i.isCut(c) {
			cut[c.ID.ID] = true
		}
	}
	return without(status, cut)
}

// without returns a status without some instances.
func without(status *runtime.PodStatus, ids map[string]bool) *runtime.PodStatus {
	if len(ids) == 0 {
		return status
	}
	rest := *status
	rest.Containers = slices.DeleteFunc(slices.Clone(status.Containers), func(c runtime.ContainerStatus) bool { return ids[c.ID.ID] })
	return &rest
}

// isCut reports whether an instance's start was cut short.
func (i Instances) isCut(c *runtime.ContainerStatus) bool {
	return i.Marked(c.ID.ID, StartRequested) && c.State == runtime.ContainerExited && c.StartedAt.IsZero()
}
