package memory

import (
	"slices"
	"strings"

	"github.com/podsync/podsync/runtime"
)

// Mark is something that has happened to a container instance.
type Mark uint8

// The marks.
const (
	// StartRequested: a start of the instance was requested, and the runtime has not responded. Or the
	// instance is stopped before it was started, in order to be removed. If it has exited and never
	// started, it has not run.
	StartRequested Mark = 1 << iota
	// PostStartPending: the instance was started, and the end of its postStart handler was not observed.
	PostStartPending
	// StopSignalled: the stop signal was sent, and is not sent again.
	StopSignalled
	// PreStopRun: the preStop handler has run, and does not run again.
	PreStopRun
	// PreStopCompleted: its preStop handler has ended by itself.
	PreStopCompleted
	// PostStopped: the hook after the instance's stop has succeeded, and does not run again.
	PostStopped
)

// Instance is one instance's memory.
type Instance struct {
	// id is the runtime's.
	id    string
	marks Mark
	// message is its termination message, nil if that was not read.
	message *string
	// resources are those in effect, nil if unknown.
	resources *runtime.ContainerResources
	// cpuset is the one in effect, nil if unknown.
	cpuset *runtime.CPUSet
}

// Instances are the instances that the agent remembers, sorted by ID.
type Instances []*Instance

func (i Instances) find(id string) (at int, found bool) {
	return slices.BinarySearchFunc(i, id, func(inst *Instance, id string) int { return strings.Compare(inst.id, id) })
}

// of returns the instance with that ID, and adds it if it is missing.
func (i *Instances) of(id string) *Instance {
	at, found := i.find(id)
	if !found {
		*i = slices.Insert(*i, at, &Instance{id: id})
	}
	return (*i)[at]
}

// get returns the instance with that ID, one without marks if it is missing.
func (i Instances) get(id string) Instance {
	if at, found := i.find(id); found {
		return *i[at]
	}
	return Instance{id: id}
}

// dropMissing drops the memory of instances that are not in a status, except that their start was
// requested.
func (i *Instances) dropMissing(status *runtime.PodStatus) {
	*i = slices.DeleteFunc(*i, func(inst *Instance) bool {
		if !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.ID.ID == inst.id }) {
			*inst = Instance{id: inst.id, marks: inst.marks & StartRequested}
		}
		return *inst == Instance{id: inst.id}
	})
}

// Mark marks an instance, and reports whether it did not have the mark.
func (i *Instances) Mark(id string, what Mark) (first bool) {
	inst := i.of(id)
	first = inst.marks&what == 0
	inst.marks |= what
	return first
}

// Unmark removes a mark.
func (i Instances) Unmark(id string, what Mark) {
	if at, found := i.find(id); found {
		i[at].marks &^= what
	}
}

// Marked reports whether an instance has one of these marks.
func (i Instances) Marked(id string, what Mark) bool { return i.get(id).marks&what != 0 }

// MarkedIn returns the instances in a status that have a mark.
func (i Instances) MarkedIn(status *runtime.PodStatus, what Mark) (ids []runtime.ContainerID) {
	for at := range status.Containers {
		if id := status.Containers[at].ID; i.Marked(id.ID, what) {
			ids = append(ids, id)
		}
	}
	return ids
}

// SetResources notes the resources in force in an instance.
func (i *Instances) SetResources(id string, r runtime.ContainerResources) { i.of(id).resources = &r }

// SetCPUSet notes the CPUSet in force in an instance, nil if it is unknown.
func (i *Instances) SetCPUSet(id string, s *runtime.CPUSet) { i.of(id).cpuset = s }

// WithResources returns a copy of a status in which running containers without resources or a CPUSet have the recorded
// ones.
func (i Instances) WithResources(status *runtime.PodStatus) *runtime.PodStatus {
	if status == nil {
		return nil
	}
	full := *status
	full.Containers = slices.Clone(status.Containers)
	for at := range full.Containers {
		c := &full.Containers[at]
		if c.State != runtime.ContainerRunning {
			continue
		}
		known := i.get(c.ID.ID)
		if known.resources != nil && c.Resources == nil {
			c.Resources = new(*known.resources)
		}
		if known.cpuset != nil && c.CPUSet == nil {
			c.CPUSet = new(*known.cpuset)
		}
	}
	return &full
}

// Message returns the termination message of an instance, if that was read.
func (i Instances) Message(id string) (message string, known bool) {
	if read := i.get(id).message; read != nil {
		return *read, true
	}
	return "", false
}

// SetMessage records the termination message of an instance, unless one is recorded, and returns the recorded one. An
// empty message is replaced, because it may be that of a read that failed.
func (i *Instances) SetMessage(id, message string) string {
	of := i.of(id)
	if of.message == nil || *of.message == "" {
		of.message = &message
	}
	return *of.message
}
