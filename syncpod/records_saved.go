package syncpod

import (
	"reflect"
	"slices"
	"time"

	"github.com/podsync/podsync/runtime"
)

// savedRecord is what a Record says, in the order of names and IDs. One is held for each pod,
// to tell whether there is news, in little memory.
type savedRecord struct {
	deadline   time.Time
	containers []savedContainer
	instances  []savedInstance
	crashes    []savedCrash
}

// savedContainer is what is recorded of a container. Its current instance is not written to.
type savedContainer struct {
	name        string
	nextAttempt uint32
	everStarted bool
	current     *runtime.ContainerStatus
}

// savedInstance is what is recorded of an instance. The resources are not written to.
type savedInstance struct {
	id        string
	marks     mark
	resources *runtime.ContainerResources
}

// recordedMarks are the marks that outlive the agent.
const recordedMarks = startRequested | postStartPending | preStopCompleted

// newSavedRecord returns what a record says.
func newSavedRecord(r Record) savedRecord {
	var known containers
	for name, attempt := range r.NextAttempts {
		known.of(name).nextAttempt = attempt
	}
	for _, name := range r.EverStarted {
		known.of(name).everStarted = true
	}
	for _, c := range slices.Concat(r.Started, r.Exited) {
		if k := known.of(c.Name); k.current == nil || k.current.Attempt < c.Attempt {
			k.setCurrent(c)
		}
	}
	return savedRecord{deadline: r.Deadline, containers: known.toRecord(), instances: recordedInstances(r).toRecord(), crashes: savedCrashes(r.CrashBackOffs)}
}

func recordedInstances(r Record) (known instances) {
	for _, marked := range []struct {
		ids []string
		as  mark
	}{{r.PostStartPending, postStartPending}, {r.StartRequested, startRequested}, {r.PreStopCompleted, preStopCompleted}} {
		for _, id := range marked.ids {
			known.of(id).marks |= marked.as
		}
	}
	for id, resources := range r.Resources {
		known.of(id).resources = &resources
	}
	return known
}

// record returns it as it is kept.
func (r savedRecord) record() Record {
	full := Record{
		Deadline: r.deadline, PostStartPending: r.marked(postStartPending), StartRequested: r.marked(startRequested),
		PreStopCompleted: r.marked(preStopCompleted),
	}
	for _, c := range r.containers {
		full.add(c)
	}
	for _, i := range r.instances {
		if i.resources != nil {
			put(&full.Resources, i.id, *i.resources)
		}
	}
	for _, c := range r.crashes {
		put(&full.CrashBackOffs, c.container, c.CrashBackOff)
	}
	return full
}

func (r *Record) add(c savedContainer) {
	if c.nextAttempt > 0 {
		put(&r.NextAttempts, c.name, c.nextAttempt)
	}
	if c.everStarted {
		r.EverStarted = append(r.EverStarted, c.name)
	}
	switch {
	case c.current == nil:
	case c.current.State == runtime.ContainerRunning:
		r.Started = append(r.Started, *c.current)
	default:
		r.Exited = append(r.Exited, *c.current)
	}
}

// put makes the map if there is none.
func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// marked returns the instances with a mark.
func (r savedRecord) marked(what mark) (ids []string) {
	for _, i := range r.instances {
		if i.marks&what != 0 {
			ids = append(ids, i.id)
		}
	}
	return ids
}

// repeats reports whether a record says what an older one does. That a start which
// was asked for has happened is not worth a write: the container shows it.
func (r savedRecord) repeats(old savedRecord) bool {
	if !r.requestsMore(old) {
		r.instances, old.instances = unmarked(r.instances, startRequested), unmarked(old.instances, startRequested)
	}
	return r.deadline.Equal(old.deadline) && slices.EqualFunc(r.containers, old.containers, savedContainer.equal) &&
		slices.EqualFunc(r.instances, old.instances, savedInstance.equal) && slices.EqualFunc(r.crashes, old.crashes, savedCrash.equal)
}

// requestsMore reports whether starts were requested that an older record does not tell of.
func (r savedRecord) requestsMore(old savedRecord) bool {
	requested := func(i savedInstance) bool { return i.marks&startRequested != 0 }
	return slices.ContainsFunc(r.instances, func(i savedInstance) bool {
		return requested(i) && !slices.ContainsFunc(old.instances, func(o savedInstance) bool { return o.id == i.id && requested(o) })
	})
}

// unmarked returns what is recorded beside a mark.
func unmarked(all []savedInstance, without mark) []savedInstance {
	if !slices.ContainsFunc(all, func(i savedInstance) bool { return i.marks&without != 0 }) {
		return all
	}
	var rest []savedInstance
	for _, i := range all {
		i.marks &^= without
		if i.marks != 0 || i.resources != nil {
			rest = append(rest, i)
		}
	}
	return rest
}

func (c savedContainer) equal(other savedContainer) bool {
	same := reflect.DeepEqual(c.current, other.current) // at once if it is one and the same
	c.current = other.current
	return same && c == other
}

func (i savedInstance) equal(other savedInstance) bool {
	same := i.resources == other.resources || i.resources != nil && other.resources != nil && *i.resources == *other.resources
	i.resources = other.resources
	return same && i == other
}
