package syncpod

import (
	"maps"
	"slices"

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
	marks mark
	// message is its termination message, nil if that was not read.
	message *string
	// resources are those in force, nil if they are not known.
	resources *runtime.ContainerResources
}

// instances are what is remembered of instances, by the runtime's ID.
type instances map[string]*instance

// of returns what is remembered of an instance, and remembers it from now on.
func (i instances) of(id string) *instance {
	if i[id] == nil {
		i[id] = &instance{}
	}
	return i[id]
}

func (i instances) has(id string, what mark) bool { return i[id] != nil && i[id].marks&what != 0 }

// marked returns the instances with a mark, sorted.
func (i instances) marked(what mark) (ids []string) {
	for id, inst := range i {
		if inst.marks&what != 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// resources returns those in force, nil if none are known.
func (i instances) resources() (known map[string]runtime.ContainerResources) {
	for id, inst := range i {
		if inst.resources == nil {
			continue
		}
		if known == nil {
			known = map[string]runtime.ContainerResources{}
		}
		known[id] = *inst.resources
	}
	return known
}

// keep drops what is remembered of instances that are not in a status, but that they
// were asked to start.
func (i instances) keep(status *runtime.PodStatus) {
	there := map[string]bool{}
	for c := range status.Containers {
		there[status.Containers[c].ID.ID] = true
	}
	maps.DeleteFunc(i, func(id string, inst *instance) bool {
		if !there[id] {
			*inst = instance{marks: inst.marks & startRequested}
		}
		return *inst == instance{}
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
	if inst := m.instances[id]; inst != nil {
		inst.marks &^= what
	}
}

func (m *memory) marked(id string, what mark) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances.has(id, what)
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
		if inst := m.instances[c.ID.ID]; inst != nil && inst.resources != nil && c.State == runtime.ContainerRunning && c.Resources == nil {
			c.Resources = new(*inst.resources)
		}
	}
	return &full
}

// message returns the termination message of an instance, if that was read.
func (m *memory) message(id string) (message string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if inst := m.instances[id]; inst != nil && inst.message != nil {
		return *inst.message, true
	}
	return "", false
}

func (m *memory) setMessage(id, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances.of(id).message = &message
}
