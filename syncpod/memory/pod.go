package memory

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// Pod is an agent's memory of one pod. Create it with New.
type Pod struct {
	// Containers are by name, Instances by ID.
	Containers Containers
	Instances  Instances
	// Crashes are the back-offs of containers that exit again and again.
	Crashes Crashes
	// Kills are the deadlines of kills while the pod keeps running.
	Kills KillDeadlines
	// Sandbox holds the facts about the pod's sandboxes.
	Sandbox Sandbox

	// deadline is the earliest deadline that the pod was given, zero while it may run.
	deadline time.Time
	// calledOff means that the pod should run although its record, which is not loaded yet, may
	// contain a termination: that termination is cancelled.
	calledOff bool
	// evicted is why the pod was evicted, nil if it was not.
	evicted *apistatus.Problem
	// disrupted: the pod was evicted because the node was under pressure.
	disrupted bool
	restart   Restart

	// loaded is set once the pod's record is part of this, saved is that record.
	loaded bool
	saved  Snapshot
	// outdated: the stored record is of an earlier pod with this UID.
	outdated bool
	// recorded means that there is a stored record, unsaved that one is needed, whatever it says.
	recorded, unsaved bool
	// closed means that the record was deleted or is being deleted, and no other is stored.
	closed bool
}

// New returns an unknown pod's memory.
func New(limits *Limits) Pod { return Pod{Crashes: Crashes{limits: limits}} }

// Earliest returns the earlier of two times. A zero time does not count.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Evict records why the pod is evicted, and whether the cause is pressure of the node. The first reason counts.
func (p *Pod) Evict(why *apistatus.Problem, disrupted bool) {
	if p.evicted == nil && why != nil {
		p.evicted, p.disrupted = new(*why), disrupted
	}
}

// Evicted returns why the pod was evicted, nil if it was not.
func (p *Pod) Evicted() *apistatus.Problem { return p.evicted }

// Disruption returns the condition of a pod that was evicted because the node was under
// pressure, none for any other.
func (p *Pod) Disruption() []v1.PodCondition {
	if !p.disrupted {
		return nil
	}
	return []v1.PodCondition{apistatus.DisruptionTarget(p.evicted.Message)}
}

// Hasten returns the earliest deadline that the pod was ever given. A deadline is never extended.
func (p *Pod) Hasten(deadline time.Time) time.Time {
	p.deadline = Earliest(p.deadline, deadline)
	return p.deadline
}

// Deadline returns the end of the pod's grace period, zero while it may run.
func (p *Pod) Deadline() time.Time { return p.deadline }

// CallOff drops a termination that was not completed: an earlier agent began it, and the pod should run now.
// The pod's next termination has its whole grace period, and runs its preStop handlers. CallOff reports
// whether there was such a termination.
func (p *Pod) CallOff() bool {
	p.calledOff = !p.loaded
	if p.deadline.IsZero() {
		return false
	}
	p.deadline = time.Time{}
	for _, i := range p.Instances {
		i.marks &^= StopSignalled | PreStopRun | PreStopCompleted
	}
	return true
}

// Restart is how far the restart of all containers is (KEP-5532). The zero value means that there is none.
type Restart struct {
	// all is set from the exit that requests the restart until all containers have been removed, unfinished from then on until
	// all regular containers have been created again.
	all, unfinished bool
}

// After returns the restart when it is requested or not, and all containers have been removed or not.
func (r Restart) After(requested, allRemoved bool) Restart {
	return Restart{all: (r.all || requested) && !allRemoved, unfinished: r.unfinished || requested}
}

// All reports whether all containers must restart, and not all of them have been removed yet.
func (r Restart) All() bool { return r.all }

// Seen returns the restart when a status is seen. Its second result reports whether all containers must restart, or some of
// them were not created again yet. reported is whether the last status of the API, perhaps of an earlier agent, reported the
// restart.
func (r Restart) Seen(pod *v1.Pod, status *runtime.PodStatus, reported bool) (after Restart, startsOver bool) {
	r.unfinished = r.unfinished || reported
	if r.unfinished && !r.all {
		r.unfinished = slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return status.Latest(c.Name) == nil })
	}
	return r, r.unfinished
}

// Restart returns how far the restart of all containers is.
func (p *Pod) Restart() Restart { return p.restart }

// SetRestart records how far the restart of all containers is.
func (p *Pod) SetRestart(r Restart) { p.restart = r }

// RestartsAll records whether the restart of all containers is requested, and whether all of them have been removed. It reports
// whether all must restart.
func (p *Pod) RestartsAll(requested, allRemoved bool) bool {
	p.restart = p.restart.After(requested, allRemoved)
	return p.restart.All()
}

// StartsOver records a status. It reports what Restart.Seen reports.
func (p *Pod) StartsOver(pod *v1.Pod, status *runtime.PodStatus, reported bool) (startsOver bool) {
	p.restart, startsOver = p.restart.Seen(pod, status, reported)
	return startsOver
}

// See records the parts of the newest status that the runtime may lose: the highest attempts, the
// exited containers, whose exit codes must be reported (kubernetes #104107), and the started ones
// that must not start again, for each name the current one.
func (p *Pod) See(status *runtime.PodStatus) {
	p.Instances.dropMissing(status)
	p.Observe(status)
	for _, known := range p.Containers {
		known.lost = known.current != nil && isMissing(known.current, status)
	}
}

// Observe does the same as See, with a status that may be older than others. It reports whether the status has an
// instance that has run or has exited and was not recorded.
func (p *Pod) Observe(status *runtime.PodStatus) (news bool) {
	if status == nil {
		return false
	}
	for i := range status.Containers {
		c := &status.Containers[i]
		known := p.Containers.of(c.Name)
		known.used(c.Attempt)
		if c.State != runtime.ContainerRunning && c.State != runtime.ContainerExited || p.Instances.isCut(c) {
			continue
		}
		known.everStarted = true
		if status.Latest(c.Name) == c && known.keep(c) {
			news = true
		}
	}
	return news
}
