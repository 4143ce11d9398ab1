package gc

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/podsync/podsync/runtime"
)

// Policy determines how many dead containers are kept.
type Policy struct {
	// PerContainer is the number of dead instances of each container to keep in addition to the
	// current instance. Default 1: the API reports no older instance. (The kubelet's flag
	// maximum-dead-containers-per-container counts the current one.)
	PerContainer int
	// MinAge is the minimum time for which every dead instance is kept after it finished. Default 0.
	MinAge time.Duration
}

// perContainer returns how many dead instances to keep in addition to the current one.
func (p Policy) perContainer() int { return cmp.Or(p.PerContainer, 1) }

// Garbage lists the items of one pod that may be removed.
type Garbage struct {
	// Containers are dead instances, sorted by name, the newest of each first.
	Containers []runtime.ContainerID
	// Sandboxes are the IDs of sandboxes that are not ready and have no containers, in
	// the order of the status.
	Sandboxes []string
}

// Decide returns the garbage of a pod that is not terminating. The status may be nil or out of
// date: a dead container stays dead, and a superseded one stays superseded. The zero Policy means
// the defaults.
func Decide(status *runtime.PodStatus, p Policy, now time.Time) Garbage {
	var g Garbage
	if status == nil {
		return g
	}
	var dead map[string][]*runtime.ContainerStatus
	for i := range status.Containers {
		if c := &status.Containers[i]; c.State == runtime.ContainerExited {
			if dead == nil { // most pods have no dead container
				dead = map[string][]*runtime.ContainerStatus{}
			}
			dead[c.Name] = append(dead[c.Name], c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dead)) {
		g.Containers = append(g.Containers, p.superfluous(dead[name], status.Latest(name), now)...)
	}
	latest := status.LatestSandbox()
	for i := range status.Sandboxes {
		if s := &status.Sandboxes[i]; s != latest && s.State == runtime.SandboxNotReady && !inUse(s, status) {
			g.Sandboxes = append(g.Sandboxes, s.ID)
		}
	}
	return g
}

// everything returns the exited containers and the sandboxes of a pod that has stopped.
func everything(status *runtime.PodStatus) (g Garbage) {
	for i := range status.Containers {
		if c := &status.Containers[i]; c.State == runtime.ContainerExited {
			g.Containers = append(g.Containers, c.ID)
		}
	}
	for i := range status.Sandboxes {
		if s := &status.Sandboxes[i]; s.State == runtime.SandboxNotReady {
			g.Sandboxes = append(g.Sandboxes, s.ID)
		}
	}
	return g
}

// onlyFirstInstances reports whether the pod has at most one sandbox, no exited container, and only
// first attempts. Such a pod has no garbage and no logs of earlier instances.
func onlyFirstInstances(status *runtime.PodStatus) bool {
	return len(status.Sandboxes) <= 1 && !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.State == runtime.ContainerExited || c.Attempt > 0
	})
}

// superfluous returns the dead instances of a container that need not be kept.
func (p Policy) superfluous(dead []*runtime.ContainerStatus, current *runtime.ContainerStatus, now time.Time) []runtime.ContainerID {
	keep := p.perContainer()
	if current.State != runtime.ContainerRunning {
		keep++ // for the current one if it is dead, otherwise for its successor
	}
	if len(dead) <= keep {
		return nil
	}
	// The sort is stable: between equal attempts the first listed is the newer one, as in
	// PodStatus.Latest.
	slices.SortStableFunc(dead, func(a, b *runtime.ContainerStatus) int { return cmp.Compare(b.Attempt, a.Attempt) })
	var ids []runtime.ContainerID
	for _, c := range dead[keep:] {
		if !p.tooYoung(c, now) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// tooYoung reports whether a container finished less than MinAge ago. It returns false if the time
// is unknown or, because the clock was set back, in the future.
func (p Policy) tooYoung(c *runtime.ContainerStatus, now time.Time) bool {
	age := now.Sub(c.FinishedAt)
	return age >= 0 && age < p.MinAge
}

// inUse reports whether the sandbox holds, or may hold, a container of the pod.
func inUse(s *runtime.SandboxStatus, status *runtime.PodStatus) bool {
	return slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.In(s) })
}
