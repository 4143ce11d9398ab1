package syncpod

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

// A start ends with the call that asks for it: a runtime that loses its caller, an
// agent that is killed for example, gives the start up, and says of the container
// that it has exited, with an error of its own, and not when it was started. Most often
// nothing of it ran; containerd has been seen to kill a process that had begun a moment before.
// It does not count as the only run of a container that has one: such a container runs at
// least once, see "What runs once" in docs/FAILURES.md.

// setAsideCutStarts returns a status without the instances whose start was cut short,
// and remembers what counts of them, their number. Of others it forgets that they were
// asked to start, once that has come to something. They are not removed at once, for containerd
// may refuse to until it is restarted, with a task of theirs that it has lost.
func (m *memory) setAsideCutStarts(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	open, cut := map[string]bool{}, map[string]bool{}
	for i := range status.Containers {
		c := &status.Containers[i]
		isCut := m.isCut(c)
		if !isCut && (!m.instances.has(c.ID.ID, startRequested) || c.State != runtime.ContainerCreated) {
			continue
		}
		open[c.ID.ID] = true
		if isCut {
			cut[c.ID.ID] = true
		}
		m.containers.of(c.Name).used(c.Attempt)
	}
	for _, inst := range m.instances {
		if !open[inst.id] {
			inst.marks &^= startRequested
		}
	}
	return without(status, cut)
}

// withoutCutStarts returns a status without them, for a report of a pod that ends: what the
// runtime says of one is its own trouble with the caller that has gone, and no end of what ran.
func (m *memory) withoutCutStarts(status *runtime.PodStatus) *runtime.PodStatus {
	if status == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cut := map[string]bool{}
	for i := range status.Containers {
		if c := &status.Containers[i]; m.isCut(c) {
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

// isCut reports whether the start of an instance was cut short. It must be called with
// mu held.
func (m *memory) isCut(c *runtime.ContainerStatus) bool {
	return m.instances.has(c.ID.ID, startRequested) && c.State == runtime.ContainerExited && c.StartedAt.IsZero()
}
