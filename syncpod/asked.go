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

// withoutCutStarts returns a status in which an instance whose start was cut short
// is one that was created, and never started.
func (m *memory) withoutCutStarts(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := status
	for i := range status.Containers {
		c := &status.Containers[i]
		switch {
		case m.asked[c.Name] != c.ID.ID || c.State == runtime.ContainerCreated:
		case c.State != runtime.ContainerExited || !c.StartedAt.IsZero():
			delete(m.asked, c.Name)
		default:
			if full == status {
				full = new(*status)
				full.Containers = slices.Clone(status.Containers)
			}
			full.Containers[i].State = runtime.ContainerCreated
		}
	}
	return full
}
