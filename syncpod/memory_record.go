package syncpod

import (
	"reflect"
	"slices"

	"github.com/podsync/podsync/runtime"
)

func (m *memory) isLoaded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded
}

// close keeps work that was given up, and returns late, from recording a pod that is
// gone. What is being recorded is recorded when it returns.
func (m *memory) close() {
	if m == nil {
		return
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
}

// restore adds to a memory what was recorded. Much may have happened since the record was
// asked for first, and may have been answered by another call meanwhile.
func (m *memory) restore(r Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded {
		return
	}
	m.loaded, m.saved = true, r
	if !m.calledOff {
		m.restoreEnd(r)
	}
	for name, attempt := range r.NextAttempts {
		known := m.containers.of(name)
		known.nextAttempt = max(known.nextAttempt, attempt)
	}
	for _, name := range r.EverStarted {
		m.containers.of(name).everStarted = true
	}
	for _, c := range slices.Concat(r.Started, r.Exited) {
		if known := m.containers.of(c.Name); known.current == nil || known.current.Attempt < c.Attempt {
			known.setCurrent(c)
		}
	}
	for _, id := range r.PostStartPending {
		m.instances.of(id).marks |= postStartPending
	}
	for _, id := range r.StartRequested {
		m.instances.of(id).marks |= startRequested
	}
	for id, resources := range r.Resources {
		m.instances.of(id).resources = &resources
	}
}

// restoreEnd adds what was recorded of an end that has begun. It must be called with mu
// held.
func (m *memory) restoreEnd(r Record) {
	m.deadline = earliest(m.deadline, r.Deadline)
	for _, id := range r.PreStopCompleted {
		m.instances.of(id).marks |= preStopRun | preStopCompleted
	}
}

// toRecord returns the record of a memory, and whether it is not the one saved.
func (m *memory) toRecord() (r Record, news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loaded || m.gone {
		return Record{}, false
	}
	r = Record{
		Deadline: m.deadline, NextAttempts: m.containers.nextAttempts(), Resources: m.instances.resources(),
		EverStarted:    m.containers.names(func(c *containerMemory) bool { return c.everStarted }),
		StartRequested: m.instances.marked(startRequested), PostStartPending: m.instances.marked(postStartPending),
		PreStopCompleted: m.instances.marked(preStopCompleted),
	}
	for _, name := range m.containers.names(func(c *containerMemory) bool { return c.current != nil }) {
		if c := *m.containers[name].current; c.State == runtime.ContainerRunning {
			r.Started = append(r.Started, c)
		} else {
			r.Exited = append(r.Exited, c)
		}
	}
	return r, m.outdated || !r.repeats(m.saved)
}

// repeats reports whether a record says what an older one does. That a start which
// was asked for has happened is not worth a write: the container shows it.
func (r Record) repeats(old Record) bool {
	if !slices.ContainsFunc(r.StartRequested, func(id string) bool { return !slices.Contains(old.StartRequested, id) }) {
		old.StartRequested = r.StartRequested
	}
	return reflect.DeepEqual(r, old)
}

func (m *memory) recorded(r Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved, m.outdated = r, false
}
