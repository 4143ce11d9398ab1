package memory

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/podsync/podsync/runtime"
)

// Snapshot has the contents of a Record, in the order of names and IDs. The agent keeps one for each pod in
// order to detect changes; it takes little memory.
type Snapshot struct {
	deadline   time.Time
	containers []savedContainer
	instances  []savedInstance
	crashes    []savedCrash
}

// savedContainer is the recorded part of a container. Its current instance is not modified.
type savedContainer struct {
	name        string
	nextAttempt uint32
	everStarted bool
	restarting  string
	current     *runtime.ContainerStatus
}

// savedInstance is the recorded part of an instance. The resources and the CPUSet are not modified.
type savedInstance struct {
	id        string
	marks     Mark
	resources *runtime.ContainerResources
	cpuset    *runtime.CPUSet
}

// recordedMarks are the marks that outlive the agent.
const recordedMarks = StartRequested | PostStartPending | PreStopCompleted

// snapshotOf returns a record's contents.
func snapshotOf(r Record) Snapshot {
	var known Containers
	for name, attempt := range r.NextAttempts {
		known.of(name).nextAttempt = attempt
	}
	for _, name := range r.EverStarted {
		known.of(name).everStarted = true
	}
	for name, id := range r.Restarting {
		known.of(name).restarting = id
	}
	for _, c := range slices.Concat(r.Started, r.Exited) {
		if k := known.of(c.Name); k.current == nil || k.current.Attempt < c.Attempt {
			k.setCurrent(c)
		}
	}
	return Snapshot{deadline: r.Deadline, containers: known.save(), instances: recordedInstances(r).save(), crashes: savedCrashes(r.CrashBackOffs)}
}

func recordedInstances(r Record) (known Instances) {
	for _, marked := range []struct {
		ids []string
		as  Mark
	}{{r.PostStartPending, PostStartPending}, {r.StartRequested, StartRequested}, {r.PreStopCompleted, PreStopCompleted}} {
		for _, id := range marked.ids {
			known.of(id).marks |= marked.as
		}
	}
	for id, resources := range r.Resources {
		known.of(id).resources = &resources
	}
	for id, cpuset := range r.CPUSets {
		known.of(id).cpuset = &cpuset
	}
	return known
}

// Record returns the snapshot as it is stored.
func (r Snapshot) Record() Record {
	full := Record{
		Deadline: r.deadline, PostStartPending: r.marked(PostStartPending), StartRequested: r.marked(StartRequested),
		PreStopCompleted: r.marked(PreStopCompleted),
	}
	for _, c := range r.containers {
		full.add(c)
	}
	for _, i := range r.instances {
		if i.resources != nil {
			put(&full.Resources, i.id, *i.resources)
		}
		if i.cpuset != nil {
			put(&full.CPUSets, i.id, *i.cpuset)
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
	if c.restarting != "" {
		put(&r.Restarting, c.name, c.restarting)
	}
	switch {
	case c.current == nil:
	case c.current.State == runtime.ContainerRunning:
		r.Started = append(r.Started, *c.current)
	default:
		r.Exited = append(r.Exited, *c.current)
	}
}

// put creates the map if it is nil.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// marked returns the instances with a mark.
func (r Snapshot) marked(what Mark) (ids []string) {
	for _, i := range r.instances {
		if i.marks&what != 0 {
			ids = append(ids, i.id)
		}
	}
	return ids
}

// repeats reports whether a record has nothing new to store compared with an older one. A requested start that has
// succeeded since need not be removed from the file: the container's status shows the start.
func (r Snapshot) repeats(old Snapshot) bool {
	if !r.requestsMore(old) {
		r.instances, old.instances = unmarked(r.instances, StartRequested), unmarked(old.instances, StartRequested)
	}
	return r.deadline.Equal(old.deadline) && slices.EqualFunc(r.containers, old.containers, savedContainer.equal) &&
		slices.EqualFunc(r.instances, old.instances, savedInstance.equal) && slices.EqualFunc(r.crashes, old.crashes, savedCrash.equal)
}

// requestsMore reports whether starts were requested that an older record does not have.
func (r Snapshot) requestsMore(old Snapshot) bool {
	requested := func(i savedInstance) bool { return i.marks&StartRequested != 0 }
	return slices.ContainsFunc(r.instances, func(i savedInstance) bool {
		return requested(i) && !slices.ContainsFunc(old.instances, func(o savedInstance) bool { return o.id == i.id && requested(o) })
	})
}

// unmarked returns the recorded instances without one mark, and drops instances with no other
// record.
func unmarked(all []savedInstance, without Mark) []savedInstance {
	var rest []savedInstance
	for _, i := range all {
		i.marks &^= without
		if i.marks != 0 || i.resources != nil || i.cpuset != nil {
			rest = append(rest, i)
		}
	}
	return rest
}

func (c savedContainer) equal(other savedContainer) bool {
	same := reflect.DeepEqual(c.current, other.current) // returns immediately if both are the same pointer
	c.current = other.current
	return same && c == other
}

func (i savedInstance) equal(other savedInstance) bool {
	same := reflect.DeepEqual(i.resources, other.resources) && reflect.DeepEqual(i.cpuset, other.cpuset)
	i.resources, i.cpuset = other.resources, other.cpuset
	return same && i == other
}

// Loaded reports whether the pod's record is part of this.
func (p *Pod) Loaded() bool { return p.loaded }

// Outdate records that the stored record belongs to an earlier pod with the same UID: it is not loaded, and the
// next record replaces it.
func (p *Pod) Outdate() { p.loaded, p.outdated = true, true }

// Close ends the recording: abandoned work that returns late must not record a pod whose record was deleted.
func (p *Pod) Close() { p.closed = true }

// Restore adds the record to the memory, once. The memory may already have newer facts, which take precedence.
func (p *Pod) Restore(r Record) {
	if p.loaded {
		return
	}
	p.loaded, p.saved = true, snapshotOf(r)
	if !p.calledOff {
		p.restoreEnd(r)
	}
	p.Crashes.restore(p.saved.crashes)
	for _, c := range p.saved.containers {
		known := p.Containers.of(c.name)
		known.nextAttempt = max(known.nextAttempt, c.nextAttempt)
		known.everStarted = known.everStarted || c.everStarted
		known.restarting = cmp.Or(known.restarting, c.restarting)
		if c.current != nil && (known.current == nil || known.current.Attempt < c.current.Attempt) {
			known.setCurrent(*c.current)
		}
	}
	for _, i := range p.saved.instances {
		known := p.Instances.of(i.id)
		known.marks |= i.marks &^ PreStopCompleted
		if known.resources == nil {
			known.resources = i.resources
		}
		if known.cpuset == nil {
			known.cpuset = i.cpuset
		}
	}
}

// restoreEnd adds the recorded facts about a termination that has begun.
func (p *Pod) restoreEnd(r Record) {
	p.deadline = Earliest(p.deadline, r.Deadline)
	for _, id := range r.PreStopCompleted {
		p.Instances.of(id).marks |= PreStopRun | PreStopCompleted
	}
}

// Snapshot returns the state to record, and whether it differs from the stored one.
func (p *Pod) Snapshot() (s Snapshot, news bool) {
	if !p.loaded || p.closed {
		return Snapshot{}, false
	}
	current := Snapshot{deadline: p.deadline, containers: p.Containers.save(), instances: p.Instances.save(), crashes: p.Crashes.save()}
	return current, p.outdated || p.unsaved || !current.repeats(p.saved)
}

// Saved notes that a snapshot was stored.
func (p *Pod) Saved(s Snapshot) { p.saved, p.outdated, p.recorded, p.unsaved = s, false, true, false }

// NeedRecord makes Snapshot report news unless a record is stored. Before the node gets anything for the pod, there must be a
// record: by it the next agent finds the pod, and removes the pod's objects.
func (p *Pod) NeedRecord() { p.unsaved = !p.recorded }

func (c Containers) save() (saved []savedContainer) {
	for _, known := range c {
		if known.nextAttempt > 0 || known.everStarted || known.restarting != "" || known.current != nil {
			saved = append(saved, savedContainer{known.name, known.nextAttempt, known.everStarted, known.restarting, known.current})
		}
	}
	return saved
}

func (i Instances) save() (saved []savedInstance) {
	for _, known := range i {
		saved = append(saved, savedInstance{known.id, known.marks & recordedMarks, known.resources, known.cpuset})
	}
	return saved
}
