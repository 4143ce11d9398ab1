package syncpod

import (
	"slices"
	"strings"

	"github.com/podsync/podsync/runtime"
)

// mark is something that has happened to an instance of a container.
type mark uint8

const (
	// startRequested: it was asked to start, without an answer; or it is stopped before it
	// was, to be removed. If it has exited and never started, that is no run.
	startRequested mark = 1 << iota
	// postStartPending: it was started, and its postStart handler has not been seen to
	// end.
	postStartPending
	// stopSignalled: it was sent its stop signal, which is not done twice.
	stopSignalled
	// preStopRun: its preStop handler was run, which is not done twice.
	preStopRun
	// preStopCompleted: its preStop handler has ended by itself.
	preStopCompleted
)

// instance is what is remembered of one instance.
type instance struct {
	// id is the runtime's.
	id    string
	marks mark
	// message is its termination message, nil if that was not read.
	message *string
	// resources are those in force, nil if they are not known.
	resources *runtime.ContainerResources
}

// instances are what is remembered of instances, sorted by ID, as containers are by name.
type instances []*instance

func (i instances) find(id string) (at int, found bool) {
	return slices.BinarySearchFunc(i, id, func(inst *instance, id string) int { return strings.Compare(inst.id, id) })
}

// of returns what is remembered of an instance, and remembers it from now on.
func (i *instances) of(id string) *instance {
	at, found := i.find(id)
	if !found {
		*i = slices.Insert(*i, at, &instance{id: id})
	}
	return (*i)[at]
}

// get returns what is remembered of an instance.
func (i instances) get(id string) instance {
	if at, found := i.find(id); found {
		return *i[at]
	}
	return instance{id: id}
}

func (i instances) has(id string, what mark) bool { return i.get(id).marks&what != 0 }

// dropGone drops what is remembered of instances that are not in a status, but that they
// were asked to start.
func (i *instances) dropGone(status *runtime.PodStatus) {
	*i = slices.DeleteFunc(*i, func(inst *instance) bool {
		if !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.ID.ID == inst.id }) {
			*inst = instance{id: inst.id, marks: inst.marks & startRequested}
		}
		return *inst == instance{id: inst.id}
	})
}

// mark notes something about an instance, and reports whether it was new.
func (m *memory) mark(id string, what mark) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inst := m.instances.of(id)
	first = inst.marks&what == 0
	inst.marks |= what
	return first
}

func (m *memory) unmark(id string, what mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, found := m.instances.find(id); found {
		m.instances[at].marks &^= what
	}
}

func (m *memory) marked(id string, what mark) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances.has(id, what)
}

// markedIn returns the instances in a status that have a mark.
func (m *memory) markedIn(status *runtime.PodStatus, what mark) (ids []runtime.ContainerID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range status.Containers {
		if id := status.Containers[i].ID; m.instances.has(id.ID, what) {
			ids = append(ids, id)
		}
	}
	return ids
}

// setResources notes the resources in force in an instance.
func (m *memory) setResources(id string, r runtime.ContainerResources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances.of(id).resources = &r
}

// withResources adds the resources in force to the running containers of a
// status, where they are known.
func (m *memory) withResources(status *runtime.PodStatus) *runtime.PodStatus {
	if status == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	full := *status
	full.Containers = slices.Clone(status.Containers)
	for i := range full.Containers {
		c := &full.Containers[i]
		if known := m.instances.get(c.ID.ID).resources; known != nil && c.State == runtime.ContainerRunning && c.Resources == nil {
			c.Resources = new(*known)
		}
	}
	return &full
}

// message returns the termination message of an instance, if that was read.
func (m *memory) message(id string) (message string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if read := m.instances.get(id).message; read != nil {
		return *read, true
	}
	return "", false
}

func (m *memory) setMessage(id, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances.of(id).message = &message
}
