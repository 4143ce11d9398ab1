package syncpod

import (
	"maps"
	"slices"
	"strings"

	"github.com/podsync/podsync/runtime"
)

// see keeps of a status what the runtime may lose: the highest attempts, and the
// exited containers, whose exit codes are to be reported (kubernetes #104107), of
// each name the current one.
func (m *memory) see(status *runtime.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetInstances(status)
	for i := range status.Containers {
		c := &status.Containers[i]
		m.attempts[c.Name] = max(m.attempts[c.Name], next(c.Attempt))
		if c.State == runtime.ContainerRunning || c.State == runtime.ContainerExited {
			m.ran[c.Name] = true
		}
		if status.Latest(c.Name) != c {
			continue
		}
		for id, old := range m.seen {
			if old.Name == c.Name {
				delete(m.seen, id)
			}
		}
		if c.State == runtime.ContainerExited {
			m.seen[c.ID] = *c
		}
	}
}

// forgetInstances drops what is noted of instances that are gone. It must be
// called with mu held.
func (m *memory) forgetInstances(status *runtime.PodStatus) {
	there := map[string]bool{}
	for i := range status.Containers {
		there[status.Containers[i].ID.ID] = true
	}
	for _, set := range []map[string]bool{m.unhooked, m.signalled, m.preStopped, m.preStopEnded} {
		maps.DeleteFunc(set, func(id string, _ bool) bool { return !there[id] })
	}
	maps.DeleteFunc(m.messages, func(id, _ string) bool { return !there[id] })
	maps.DeleteFunc(m.resources, func(id string, _ runtime.ContainerResources) bool { return !there[id] })
}

// withSeen returns a status with the exited containers that were seen and are
// gone: those that no newer instance has followed.
func (m *memory) withSeen(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lost []runtime.ContainerStatus
	for _, c := range m.seen {
		if status.Latest(c.Name) == nil {
			lost = append(lost, c)
		}
	}
	if len(lost) == 0 || status == nil {
		return status
	}
	sortByName(lost)
	full := *status
	full.Containers = append(append([]runtime.ContainerStatus{}, status.Containers...), lost...)
	return &full
}

// forgetExit drops the exit of an instance that was removed so that all starts over.
func (m *memory) forgetExit(id runtime.ContainerID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, id)
}

// complete adds to a status what the runtime has lost, or does not tell.
func (w *work) complete(status *runtime.PodStatus) *runtime.PodStatus {
	full := w.memory.withSeen(status)
	if w.config.Updater == nil {
		return full
	}
	return w.memory.withResources(full)
}

func sortByName(all []runtime.ContainerStatus) {
	slices.SortFunc(all, func(a, b runtime.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
}
