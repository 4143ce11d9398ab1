package memory

import (
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/creation"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// Container is what is remembered about one container in a pod, for all its instances.
type Container struct {
	name string
	// nextAttempt is the least number that the next instance may have.
	nextAttempt uint32
	// nameReserved counts how often the next instance's name was refused.
	nameReserved creation.Refusals
	// logsScanned: the logs have been searched for attempts.
	logsScanned bool
	// everStarted: an instance was, or may have been, started.
	everStarted bool
	// once means that the container must run only once.
	once bool
	// current is the current instance, if it has exited, or if it was started and must run only once.
	// The runtime may have lost it.
	current *runtime.ContainerStatus
	// lost: the last status did not have current.
	lost bool
	// restarting is the runtime's ID of the instance that was stopped in order to start the container again, until a
	// later instance has started. Empty if there is none.
	restarting string
	// resetBefore is the lowest attempt that the last restart of all containers did not remove. A status that is
	// observed late may still have lower attempts.
	resetBefore uint32
}

// Containers are the containers that the agent remembers, sorted by name. A pod has few of them: a
// list takes less memory than a map.
type Containers []*Container

func (c Containers) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(c, name, func(known *Container, name string) int { return strings.Compare(known.name, name) })
}

// of returns the container with that name, and adds it if it is missing.
func (c *Containers) of(name string) *Container {
	at, found := c.find(name)
	if !found {
		*c = slices.Insert(*c, at, &Container{name: name})
	}
	return (*c)[at]
}

// get returns the container with that name, the zero value if it is missing.
func (c Containers) get(name string) Container {
	if at, found := c.find(name); found {
		return *c[at]
	}
	return Container{}
}

// next returns the following attempt. attempt may be any number.
func next(attempt uint32) uint32 { return attempt + min(1, math.MaxUint32-attempt) }

// used records that an instance was created with an attempt.
func (c *Container) used(attempt uint32) { c.nextAttempt = max(c.nextAttempt, next(attempt)) }

// Attempt returns the number of a container's next instance. It is at least the number that the caller
// requires.
func (c *Containers) Attempt(name string, least uint32) uint32 {
	known := c.of(name)
	known.nextAttempt = max(known.nextAttempt, least)
	return known.nextAttempt
}

// Used records that a container was created with an attempt, or that the attempt was given up.
func (c *Containers) Used(name string, attempt uint32) {
	known := c.of(name)
	known.used(attempt)
	known.nameReserved = 0
}

// NameReserved counts that a container's name was refused, and reports whether there were
// enough to give the attempt up.
func (c *Containers) NameReserved(name string, enough int) bool {
	return c.of(name).nameReserved.Count(enough)
}

// Scanned records the last attempt that a container's logs show, if found is set.
func (c *Containers) Scanned(name string, last uint32, found bool) {
	known := c.of(name)
	known.logsScanned = true
	if found {
		known.used(last)
		known.nameReserved, known.everStarted = 0, true
	}
}

// LogsScanned reports whether Scanned was called for a container.
func (c Containers) LogsScanned(name string) bool { return c.get(name).logsScanned }

// EverStarted reports whether a container instance was, or may have been, started.
func (c Containers) EverStarted(name string) bool { return c.get(name).everStarted }

// SetEverStarted notes whether a container instance was started, and reports
// whether that is new.
func (c *Containers) SetEverStarted(name string, is bool) (news bool) {
	known := c.of(name)
	news = known.everStarted != is
	known.everStarted = is
	return news
}

// NoteRunOnce records which containers in the pod must run only once: the ephemeral ones, and
// those that do not run again after an unknown exit.
func (c *Containers) NoteRunOnce(pod *v1.Pod) {
	for _, known := range *c {
		known.once = false
	}
	for spec, ephemeral := range runtime.AllContainers(pod) {
		if again, _ := actions.RestartsAfter(pod, spec, apistatus.LostExitCode); ephemeral || !again {
			c.of(spec.Name).once = true
		}
	}
}

// isMissing reports whether a status has neither an instance nor a later one.
func isMissing(c *runtime.ContainerStatus, status *runtime.PodStatus) bool {
	latest := status.Latest(c.Name)
	return latest == nil || latest.Attempt < c.Attempt
}

// Started records an instance that the runtime has confirmed as started. It reports whether
// the record is needed: the container must run only once.
func (c Containers) Started(instance runtime.ContainerStatus) (news bool) {
	at, found := c.find(instance.Name)
	return found && c[at].once && c[at].keep(&instance)
}

// keep records an instance that runs or has exited, unless a later state is recorded already. It reports whether the
// record has changed. The first observed exit is kept.
func (c *Container) keep(instance *runtime.ContainerStatus) (news bool) {
	known := c.current != nil
	same, exited := known && c.current.ID == instance.ID, instance.State == runtime.ContainerExited
	switch {
	case known && c.current.Attempt > instance.Attempt, instance.Attempt < c.resetBefore:
		return false
	case same && !exited:
		return false
	case same && c.current.State == runtime.ContainerExited:
		reason := apistatus.ReasonOf(c.current.Reason, c.current.ExitCode, instance)
		news = reason != c.current.Reason
		if c.current.Message == "" || news { // the termination message is read later
			c.setCurrent(*c.current)
			c.current.Message, c.current.Reason = instance.Message, reason
		}
		return news
	case exited, c.once:
		c.setCurrent(*instance)
		return true
	}
	c.current, c.lost = nil, false
	return known
}

// setCurrent replaces the current instance.
func (c *Container) setCurrent(instance runtime.ContainerStatus) {
	c.current, c.lost = &instance, false
}

// WithSeen returns a status that includes the recorded containers that the runtime has lost, unless a newer
// instance exists. An instance whose exit was not observed counts as lost only if the newest status does not
// have it: the given status may be from before its start.
func (c Containers) WithSeen(status *runtime.PodStatus) *runtime.PodStatus {
	var missing []runtime.ContainerStatus
	for _, known := range c {
		current := known.current
		switch {
		case current == nil || !isMissing(current, status):
		case current.State != runtime.ContainerRunning:
			missing = append(missing, *current)
		case known.lost:
			missing = append(missing, apistatus.Lost(*current))
		}
	}
	if len(missing) == 0 {
		return status
	}
	if status == nil {
		return &runtime.PodStatus{Containers: missing}
	}
	full := *status
	full.Containers = append(append([]runtime.ContainerStatus{}, status.Containers...), missing...)
	return &full
}

// WithStarts returns a status with the recorded start instance times in an unknown state: a runtime that has
// lost the state may have lost the start time.
func (c Containers) WithStarts(status *runtime.PodStatus) *runtime.PodStatus {
	full := status
	for i, instance := range status.Containers {
		known := c.get(instance.Name).current
		if instance.State != runtime.ContainerUnknown || !instance.StartedAt.IsZero() || known == nil || known.ID != instance.ID {
			continue
		}
		if full == status {
			full = new(*status)
			full.Containers = slices.Clone(status.Containers)
		}
		full.Containers[i].StartedAt = known.StartedAt
	}
	return full
}

// NoteRestarts records the instances that a plan stops in order to start their containers again. It forgets those whose
// container has started again, and those that run and that the plan does not stop. It reports whether there are new
// ones.
func (c *Containers) NoteRestarts(restarts []runtime.ContainerID, status *runtime.PodStatus) (news bool) {
	for _, known := range *c {
		latest := status.Latest(known.name)
		if !latest.HasRun() {
			continue
		}
		if latest.ID.ID != known.restarting || latest.State == runtime.ContainerRunning && !slices.Contains(restarts, latest.ID) {
			known.restarting = ""
		}
	}
	for i := range status.Containers {
		if instance := &status.Containers[i]; slices.Contains(restarts, instance.ID) {
			known := c.of(instance.Name)
			news = news || known.restarting != instance.ID.ID
			known.restarting = instance.ID.ID
		}
	}
	return news
}

// Restarting returns the instances in a status that were stopped in order to start their containers again.
func (c Containers) Restarting(status *runtime.PodStatus) (ids []runtime.ContainerID) {
	for _, known := range c {
		if known.restarting == "" {
			continue
		}
		if latest := status.Latest(known.name); latest != nil && latest.ID.ID == known.restarting {
			ids = append(ids, latest.ID)
		}
	}
	return ids
}

// HasExited reports whether an instance is known to have exited.
func (c Containers) HasExited(id string) bool {
	return slices.ContainsFunc(c, func(known *Container) bool {
		return known.current != nil && known.current.ID.ID == id && known.current.State == runtime.ContainerExited
	})
}

// HasRunSince reports whether a container has run, and this was unknown when the status was read: a start that
// was given up may succeed before its container is removed. The next status must then decide whether the
// container runs again.
func (c Containers) HasRunSince(status *runtime.PodStatus, name string) bool {
	run := c.get(name).current
	if run == nil {
		return false
	}
	if latest := status.Latest(name); latest != nil && latest.Attempt > run.Attempt {
		return false // and a later instance exists
	}
	return !slices.ContainsFunc(status.Containers, func(instance runtime.ContainerStatus) bool {
		return instance.ID == run.ID && instance.State != runtime.ContainerCreated
	})
}

// ForgetRun drops the facts about an instance that was removed because all containers restart, and about
// earlier instances, for good.
func (c *Containers) ForgetRun(instance *runtime.ContainerStatus) {
	known := c.of(instance.Name)
	known.resetBefore = max(known.resetBefore, next(instance.Attempt))
	if known.current != nil && known.current.ID == instance.ID {
		known.current, known.lost = nil, false
	}
}
