package syncpod

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

// A start ends with the call that asks for it: a runtime that loses its caller, an
// agent that is killed for example, gives the start up, and says of the container
// that it has exited, with an error of its own. It has not: nothing of it ever ran,
// and it is not to count as the only run of a container that has one.

// ask notes that an instance is about to be asked to start.
func (m *memory) ask(name, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[name] = id
}

// answered notes that what became of the start is known.
func (m *memory) answered(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.asked, name)
}

// withoutCutStarts returns a status without the instances whose start was cut short:
// what counts of them is their number. They are not removed at once, for containerd
// may refuse to until it is restarted, with a task of theirs that it has lost.
func (m *memory) withoutCutStarts(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(status.Containers, m.wasCut) {
		return status
	}
	rest := *status
	rest.Containers = slices.DeleteFunc(slices.Clone(status.Containers), m.wasCut)
	return &rest
}

// wasCut reports whether nothing of an instance ever ran, because its start was cut
// short. It must be called with mu held.
func (m *memory) wasCut(c runtime.ContainerStatus) bool {
	if m.asked[c.Name] != c.ID.ID || c.State == runtime.ContainerCreated {
		return false
	}
	if c.State != runtime.ContainerExited || !c.StartedAt.IsZero() {
		delete(m.asked, c.Name)
		return false
	}
	m.attempts[c.Name] = max(m.attempts[c.Name], next(c.Attempt))
	return true
}
