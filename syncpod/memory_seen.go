package syncpod

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// expect notes which containers of the pod are to run once: the ephemeral ones, and
// those that do not run again after an end of which nothing is known.
func (m *memory) expect(pod *v1.Pod) {
	var once map[string]bool // few pods have any
	note := func(c *v1.Container) {
		if once == nil {
			once = map[string]bool{}
		}
		once[c.Name] = true
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if again, _ := actions.RestartsAfter(pod, &list[i], apistatus.LostExitCode); !again {
				note(&list[i])
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		note((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.once = once
}

// see keeps of a status what the runtime may lose: the highest attempts, the exited
// containers, whose exit codes are to be reported (kubernetes #104107), and those that
// were started and are not to be started again, of each name the current one.
func (m *memory) see(status *runtime.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetInstances(status)
	m.learn(status)
	m.lost = nil
	for _, c := range m.seen {
		if c.State == runtime.ContainerRunning && isGone(c, status) {
			if m.lost == nil {
				m.lost = map[runtime.ContainerID]bool{}
			}
			m.lost[c.ID] = true
		}
	}
}

// isGone reports whether a status shows neither an instance nor one that has followed it.
func isGone(c runtime.ContainerStatus, status *runtime.PodStatus) bool {
	latest := status.Latest(c.Name)
	return latest == nil || latest.Attempt < c.Attempt
}

// observe keeps the same of a status that may be older than others. It reports whether
// an instance is in it that has run, or has exited, as was not known.
func (m *memory) observe(status *runtime.PodStatus) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.learn(status)
}

// started keeps an instance of which the runtime has answered that it was started. It
// reports whether that is worth keeping: the container is to run once.
func (m *memory) started(c runtime.ContainerStatus) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.once[c.Name] && m.keep(&c)
}

// learn must be called with mu held.
func (m *memory) learn(status *runtime.PodStatus) (news bool) {
	for i := range status.Containers {
		c := &status.Containers[i]
		m.attempts[c.Name] = max(m.attempts[c.Name], next(c.Attempt))
		if c.State != runtime.ContainerRunning && c.State != runtime.ContainerExited || m.isCut(c) {
			continue
		}
		m.ran[c.Name] = true
		if status.Latest(c.Name) == c && m.keep(c) {
			news = true
		}
	}
	return news
}

// keep keeps an instance that runs or has exited, unless more is known already, and
// reports whether that was news. How it ended first holds. It must be called with mu
// held.
func (m *memory) keep(c *runtime.ContainerStatus) (news bool) {
	last, known := m.seen[c.Name]
	same, exited := known && last.ID == c.ID, c.State == runtime.ContainerExited
	switch {
	case known && last.Attempt > c.Attempt, c.Attempt < m.reset[c.Name]:
		return false
	case same && !exited:
		return false
	case same && last.State == runtime.ContainerExited:
		if last.Message == "" { // the termination message is read later
			last.Message = c.Message
			m.seen[c.Name] = last
		}
		return false
	case exited, m.once[c.Name]:
		m.seen[c.Name] = *c
		return true
	}
	delete(m.seen, c.Name)
	return known
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

// withSeen returns a status with the containers that were seen and are gone: those
// that no newer instance has followed. One that was not seen to end is lost, if a look
// has missed it: the status may be from before it was started.
func (m *memory) withSeen(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var gone []runtime.ContainerStatus
	for _, c := range m.seen {
		switch {
		case !isGone(c, status):
		case c.State != runtime.ContainerRunning:
			gone = append(gone, c)
		case m.lost[c.ID]:
			gone = append(gone, apistatus.Lost(c))
		}
	}
	if len(gone) == 0 || status == nil {
		return status
	}
	sortByName(gone)
	full := *status
	full.Containers = append(append([]runtime.ContainerStatus{}, status.Containers...), gone...)
	return &full
}

// withStarts returns a status that tells of the instances in an unknown state when
// they were started, as far as that is known: a runtime that has lost the one may have
// lost the other.
func (m *memory) withStarts(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := status
	for i, c := range status.Containers {
		if c.State != runtime.ContainerUnknown || !c.StartedAt.IsZero() || m.seen[c.Name].ID != c.ID {
			continue
		}
		if full == status {
			full = new(*status)
			full.Containers = slices.Clone(status.Containers)
		}
		full.Containers[i].StartedAt = m.seen[c.Name].StartedAt
	}
	return full
}

// hasRunSince reports whether a container is known to have run, as was not known when this
// status was read: a start that was given up may succeed before what it was about is
// removed. Then the next look is to decide on another run.
func (m *memory) hasRunSince(status *runtime.PodStatus, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	run, ok := m.seen[name]
	if latest := status.Latest(name); ok && latest != nil && latest.Attempt > run.Attempt {
		return false // and another has followed it
	}
	return ok && !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.ID == run.ID && c.State != runtime.ContainerCreated
	})
}

// forgetRun drops what is known of an instance that was removed so that all starts over,
// and of those before it, for good.
func (m *memory) forgetRun(c *runtime.ContainerStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reset[c.Name] = max(m.reset[c.Name], next(c.Attempt))
	if m.seen[c.Name].ID == c.ID {
		delete(m.seen, c.Name)
	}
}

// complete adds to a status what the runtime has lost, or does not tell.
func (w *work) complete(status *runtime.PodStatus) *runtime.PodStatus {
	full := w.memory.withStarts(w.memory.withSeen(status))
	if w.config.Updater == nil {
		return full
	}
	return w.memory.withResources(full)
}

func sortByName(all []runtime.ContainerStatus) {
	slices.SortFunc(all, func(a, b runtime.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
}
