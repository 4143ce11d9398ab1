package gc

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/podsync/podsync/runtime"
)

// keptDead is how many dead instances are kept for a container besides the current one: the API reports one, as lastState.
// The kubelet's flag maximum-dead-containers-per-container counts the current one, too.
const keptDead = 1

// Garbage lists the items in one pod that may be removed.
type Garbage struct {
	// Containers are dead instances, sorted by name, the newest first.
	Containers []runtime.ContainerID
	// Sandboxes are the IDs for sandboxes that are not ready and have no containers,
	// in the status's order.
	Sandboxes []string
}

// Decide returns the garbage from a pod that is not terminating. The status may be nil or
// outdated: a dead container stays dead, and a superseded one stays superseded.
func Decide(status *runtime.PodStatus) Garbage {
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
		g.Containers = append(g.Containers, superfluous(dead[name], status.Latest(name))...)
	}
	latest := status.LatestSandbox()
	for i := range status.Sandboxes {
		if s := &status.Sandboxes[i]; s != latest && s.State == runtime.SandboxNotReady && !inUse(s, status) {
			g.Sandboxes = append(g.Sandboxes, s.ID)
		}
	}
	return g
}

// everything returns all containers and sandboxes in a pod that has stopped.
func everything(status *runtime.PodStatus) (g Garbage) {
	for i := range status.Containers {
		g.Containers = append(g.Containers, status.Containers[i].ID)
	}
	for i := range status.Sandboxes {
		g.Sandboxes = append(g.Sandboxes, status.Sandboxes[i].ID)
	}
	return g
}

// hasStopped reports whether no process in the pod is left, and no container ended within exitReadTime. An end in the future,
// because the clock was set back, is not recent. A container that was created and not started has no process once its sandbox
// has stopped.
func hasStopped(status *runtime.PodStatus, now time.Time) bool {
	isRecent := func(t time.Time) bool { return !t.After(now) && now.Sub(t) < exitReadTime }
	return !slices.ContainsFunc(status.Sandboxes, func(s runtime.SandboxStatus) bool { return s.State != runtime.SandboxNotReady }) &&
		!slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
			return c.State != runtime.ContainerCreated && (c.State != runtime.ContainerExited || isRecent(c.FinishedAt))
		})
}

// onlyFirstInstances reports whether the pod has at most one sandbox, no exited container, and only
// first attempts. Unless the pod has ended, it then has no garbage and no logs from earlier
// instances.
func onlyFirstInstances(status *runtime.PodStatus) bool {
	return len(status.Sandboxes) <= 1 && !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.State == runtime.ContainerExited || c.Attempt > 0
	})
}

// superfluous returns a container's dead instances that need not be kept.
func superfluous(dead []*runtime.ContainerStatus, current *runtime.ContainerStatus) []runtime.ContainerID {
	keep := keptDead
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
		ids = append(ids, c.ID)
	}
	return ids
}

// inUse reports whether the sandbox holds, or may hold, a container in the pod.
func inUse(s *runtime.SandboxStatus, status *runtime.PodStatus) bool {
	return slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.In(s) })
}
