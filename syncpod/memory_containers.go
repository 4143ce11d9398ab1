package syncpod

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/base/creation"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// containerMemory is what is remembered of one container of a pod, whatever its
// instances.
type containerMemory struct {
	name string
	// nextAttempt is the number of the next instance, as far as is known here.
	nextAttempt uint32
	// nameReserved counts the refusals of the next instance's name.
	nameReserved creation.Refusals
	// logsScanned: the logs have been looked at for attempts.
	logsScanned bool
	// everStarted: an instance was, or may have been, started.
	everStarted bool
	// once: the container is to run once.
	once bool
	// current is the current instance if it has exited, or is to run once and was
	// started. It may not be there any more.
	current *runtime.ContainerStatus
	// lost: current was started, and the last look did not show it.
	lost bool
	// resetBefore is the least attempt that was not removed so that all starts over: a
	// look from before that may be heard of late.
	resetBefore uint32
}

// containers are what is remembered of containers, sorted by name. A pod has few of them: a
// list takes less memory than a map.
type containers []*containerMemory

func (c containers) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(c, name, func(known *containerMemory, name string) int { return strings.Compare(known.name, name) })
}

// of returns what is remembered of a container, and remembers it from now on.
func (c *containers) of(name string) *containerMemory {
	at, found := c.find(name)
	if !found {
		*c = slices.Insert(*c, at, &containerMemory{name: name})
	}
	return (*c)[at]
}

// get returns what is remembered of a container.
func (c containers) get(name string) containerMemory {
	if at, found := c.find(name); found {
		return *c[at]
	}
	return containerMemory{}
}

// used notes that an attempt has become an instance.
func (c *containerMemory) used(attempt uint32) { c.nextAttempt = max(c.nextAttempt, next(attempt)) }

// container returns what is remembered of a container.
func (m *memory) container(name string) containerMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.containers.get(name)
}

// used notes that an attempt has become a container, or was given up.
func (m *memory) used(name string, attempt uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.containers.of(name)
	known.used(attempt)
	known.nameReserved = 0
}

// nameReserved counts a refusal of a container's name, and reports whether there were
// enough to give the attempt up.
func (m *memory) nameReserved(name string, enough int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.containers.of(name).nameReserved.Count(enough)
}

// scanned notes what the logs tell of a container: the last attempt, if there is any.
func (m *memory) scanned(name string, last uint32, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.containers.of(name)
	known.logsScanned = true
	if found {
		known.used(last)
		known.nameReserved, known.everStarted = 0, true
	}
}

// setEverStarted notes whether an instance of a container was started, and reports
// whether that is new.
func (m *memory) setEverStarted(name string, is bool) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.containers.of(name)
	news = known.everStarted != is
	known.everStarted = is
	return news
}

// noteRunOnce notes which containers of the pod are to run once: the ephemeral ones, and
// those that do not run again after an end of which nothing is known.
func (m *memory) noteRunOnce(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.containers {
		known.once = false
	}
	for spec, ephemeral := range containersOf(pod) {
		if again, _ := actions.RestartsAfter(pod, spec, apistatus.LostExitCode); ephemeral || !again {
			m.containers.of(spec.Name).once = true
		}
	}
}

// see keeps of a status what the runtime may lose: the highest attempts, the exited
// containers, whose exit codes are to be reported (kubernetes #104107), and those that
// were started and are not to be started again, of each name the current one.
func (m *memory) see(status *runtime.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances.dropGone(status)
	m.learn(status)
	for _, known := range m.containers {
		known.lost = known.current != nil && known.current.State == runtime.ContainerRunning && isGone(known.current, status)
	}
}

// isGone reports whether a status shows neither an instance nor one that has followed it.
func isGone(c *runtime.ContainerStatus, status *runtime.PodStatus) bool {
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
	at, found := m.containers.find(c.Name)
	return found && m.containers[at].once && m.containers[at].keep(&c)
}

// learn must be called with mu held.
func (m *memory) learn(status *runtime.PodStatus) (news bool) {
	for i := range status.Containers {
		c := &status.Containers[i]
		known := m.containers.of(c.Name)
		known.used(c.Attempt)
		if c.State != runtime.ContainerRunning && c.State != runtime.ContainerExited || m.isCut(c) {
			continue
		}
		known.everStarted = true
		if status.Latest(c.Name) == c && known.keep(c) {
			news = true
		}
	}
	return news
}

// keep keeps an instance that runs or has exited, unless more is known already, and
// reports whether that was news. How it ended first holds.
func (k *containerMemory) keep(c *runtime.ContainerStatus) (news bool) {
	known := k.current != nil
	same, exited := known && k.current.ID == c.ID, c.State == runtime.ContainerExited
	switch {
	case known && k.current.Attempt > c.Attempt, c.Attempt < k.resetBefore:
		return false
	case same && !exited:
		return false
	case same && k.current.State == runtime.ContainerExited:
		if k.current.Message == "" { // the termination message is read later
			k.setCurrent(*k.current)
			k.current.Message = c.Message
		}
		return false
	case exited, k.once:
		k.setCurrent(*c)
		return true
	}
	k.current, k.lost = nil, false
	return known
}

// setCurrent replaces the current instance.
func (k *containerMemory) setCurrent(c runtime.ContainerStatus) {
	k.lost = k.lost && k.current != nil && k.current.ID == c.ID
	k.current = &c
}

// withSeen returns a status with the containers that were seen and are gone: those
// that no newer instance has followed. One that was not seen to end is lost, if a look
// has missed it: the status may be from before it was started.
func (m *memory) withSeen(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var gone []runtime.ContainerStatus
	for _, known := range m.containers {
		c := known.current
		switch {
		case c == nil || !isGone(c, status):
		case c.State != runtime.ContainerRunning:
			gone = append(gone, *c)
		case known.lost:
			gone = append(gone, apistatus.Lost(*c))
		}
	}
	if len(gone) == 0 {
		return status
	}
	if status == nil {
		return &runtime.PodStatus{Containers: gone}
	}
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
		known := m.containers.get(c.Name).current
		if c.State != runtime.ContainerUnknown || !c.StartedAt.IsZero() || known == nil || known.ID != c.ID {
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

// hasRunSince reports whether a container is known to have run, as was not known when this
// status was read: a start that was given up may succeed before what it was about is
// removed. Then the next look is to decide on another run.
func (m *memory) hasRunSince(status *runtime.PodStatus, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.containers.get(name).current
	if run == nil {
		return false
	}
	if latest := status.Latest(name); latest != nil && latest.Attempt > run.Attempt {
		return false // and another has followed it
	}
	return !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.ID == run.ID && c.State != runtime.ContainerCreated
	})
}

// forgetRun drops what is known of an instance that was removed so that all starts over,
// and of those before it, for good.
func (m *memory) forgetRun(c *runtime.ContainerStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.containers.of(c.Name)
	known.resetBefore = max(known.resetBefore, next(c.Attempt))
	if known.current != nil && known.current.ID == c.ID {
		known.current, known.lost = nil, false
	}
}

// complete adds to a status what the runtime has lost, or does not tell.
func (o *observedPod) complete(status *runtime.PodStatus) *runtime.PodStatus {
	full := o.memory.withStarts(o.memory.withSeen(status))
	if o.config.Deps.Updater == nil {
		return full
	}
	return o.memory.withResources(full)
}
