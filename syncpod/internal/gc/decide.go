package gc

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/podsync/podsync/runtime"
)

// Policy says how much stays of what is dead.
type Policy struct {
	// PerContainer is how many dead instances stay of each container of a pod beside
	// the current one. Default 1, with which all that the API can report stays. (That
	// of a kubelet, maximum-dead-containers-per-container, counts the current one.)
	PerContainer int
	// MinAge is how long every dead instance stays, from its end on. Default 0.
	MinAge time.Duration
}

// perContainer returns how many dead instances stay beside the current one.
func (p Policy) perContainer() int { return cmp.Or(p.PerContainer, 1) }

// Garbage is what may be removed of a pod.
type Garbage struct {
	// Containers are dead instances, sorted by name, the newest of each first.
	Containers []runtime.ContainerID
	// Sandboxes are the IDs of sandboxes that are not ready and have no containers, in
	// the order of the status.
	Sandboxes []string
}

// Decide says what may be removed of a pod that lives. A nil status, or one that is
// not the newest any more, is fine: what it says is dead stays dead, and what has
// been followed stays so. The zero Policy has the defaults.
func Decide(status *runtime.PodStatus, p Policy, now time.Time) Garbage {
	var g Garbage
	if status == nil {
		return g
	}
	var dead map[string][]*runtime.ContainerStatus
	for i := range status.Containers {
		if c := &status.Containers[i]; c.State == runtime.ContainerExited {
			if dead == nil { // in most pods nothing is
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

// onlyFirstInstances reports whether a pod has at most one sandbox, and of its containers first
// instances alone, none of which has exited. Nothing of such a pod can be removed, and there
// are no logs of earlier instances.
func onlyFirstInstances(status *runtime.PodStatus) bool {
	return len(status.Sandboxes) <= 1 && !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.State == runtime.ContainerExited || c.Attempt > 0
	})
}

// superfluous returns those of a container's dead instances that need not stay.
func (p Policy) superfluous(dead []*runtime.ContainerStatus, current *runtime.ContainerStatus, now time.Time) []runtime.ContainerID {
	keep := p.perContainer()
	if current.State != runtime.ContainerRunning {
		keep++ // for the current one if that is dead, or for one to take its place
	}
	if len(dead) <= keep {
		return nil
	}
	// Stable, so that of equal attempts the first listed is the newer one, as it is
	// for PodStatus.Latest.
	slices.SortStableFunc(dead, func(a, b *runtime.ContainerStatus) int { return cmp.Compare(b.Attempt, a.Attempt) })
	var ids []runtime.ContainerID
	for _, c := range dead[keep:] {
		if !p.tooYoung(c, now) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// tooYoung reports whether a container has ended less than MinAge ago. An end that
// is not known, or that a clock which was set back puts into the future, holds
// nothing up.
func (p Policy) tooYoung(c *runtime.ContainerStatus, now time.Time) bool {
	age := now.Sub(c.FinishedAt)
	return age >= 0 && age < p.MinAge
}

// inUse reports whether a container of the pod is, or may be, in the sandbox.
func inUse(s *runtime.SandboxStatus, status *runtime.PodStatus) bool {
	return slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.In(s) })
}
