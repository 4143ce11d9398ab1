package loop

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
)

// housekeeper makes the workers stop and remove pods that no source wants.
type housekeeper struct {
	table   *podTable
	sources *feeds
	watcher *pleg.Watcher
}

// run does the housekeeping whenever it is requested. New pods and changes do not wait for it
// (kubernetes #98607).
func (h *housekeeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.table.housekeeping:
		}
		if !h.table.listed.Load() {
			continue
		}
		began := time.Now()
		h.doHousekeeping()
		select {
		case <-time.After(min(housekeepingCost*time.Since(began), longestPause)):
		case <-ctx.Done():
		}
	}
}

const (
	// housekeepingCost is the pause after a housekeeping, as a multiple of its duration: each one compares all pods, and
	// while many pods end it is always requested.
	housekeepingCost = 9
	// longestPause limits that pause.
	longestPause = 2 * time.Second
)

// doHousekeeping compares the desired pods with those on the node, and notifies the workers, which
// stop, remove and forget pods.
func (h *housekeeper) doHousekeeping() {
	if h.sources.judge(h.watcher.Pods) {
		h.table.reconcile.raise() // new pods have waited for it
	}
	desired, pods := h.sources.desired(), h.watcher.Pods()
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	h.stopOrphans(desired, pods)
	h.stopOrphanedContainers(pods)
	h.table.workers.SyncKnownPods(h.table.desiredUIDs())
	h.removeOrphans(desired, pods)
}

// isOrphan reports whether no source wants a pod of the runtime that the workers do not know. It
// waits until the pod's source has delivered (kubernetes #105547, #107730). It requires the table's
// mu to be held.
func (h *housekeeper) isOrphan(desired desiredPods, p pleg.Pod) bool {
	return !desired.has(p.UID) && h.table.pods[p.UID] == nil && !desired.undecided(p.Source) && !h.table.workers.State(p.UID).Known
}

// stopOrphans makes the workers stop running orphans. It must be called with the table's mu held.
func (h *housekeeper) stopOrphans(desired desiredPods, pods []pleg.Pod) {
	for _, p := range pods {
		if p.Running && h.isOrphan(desired, p) {
			h.table.logger.Info("orphaned pod is stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID, "source", p.Source)
			h.stop(p)
		}
	}
}

// stopOrphanedContainers makes the workers stop running containers of pods that have ended, desired
// or not: for example after a start that timed out and happened later (kubernetes #139833). A
// container that was created late may still start, and is removed. It requires the table's mu to be
// held.
func (h *housekeeper) stopOrphanedContainers(pods []pleg.Pod) {
	for _, p := range pods {
		state := h.table.states.get(p.UID)
		if h.table.pods[p.UID] == nil || !p.ObservedAt.After(state.stoppedAt) || !h.table.workers.State(p.UID).Terminated || !p.Running && !h.hasCreated(p, state.stoppedAt) {
			continue
		}
		h.table.logger.Info("orphaned containers of an ended pod are stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
		h.stop(p)
	}
}

func (h *housekeeper) stop(p pleg.Pod) {
	if err := h.table.workers.KillRuntimePod(runtimePod(p)); err != nil {
		h.table.logger.V(1).Info("no pod is stopped any more", "podUID", p.UID, "reason", err.Error())
	}
}

// hasCreated reports whether the runtime showed, after the pod was stopped, a container in the pod that was
// created and not started.
func (h *housekeeper) hasCreated(p pleg.Pod, stoppedAt time.Time) bool {
	status := h.table.lastStatus(p.UID)
	return status != nil && status.ObservedAt.After(stoppedAt) && slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.State == runtime.ContainerCreated })
}

// removeOrphans makes the workers remove the remains of earlier agents' pods: the stopped containers and
// sandboxes of pods that do not run and, once all sources have delivered, the records of pods that the
// runtime does not have. It requires the table's mu to be held.
func (h *housekeeper) removeOrphans(desired desiredPods, pods []pleg.Pod) {
	inRuntime := make(map[types.UID]bool, len(pods))
	for _, p := range pods {
		inRuntime[p.UID] = true
		if !p.Running && h.isOrphan(desired, p) {
			h.table.workers.RemoveOrphan(runtimePod(p))
		}
	}
	if !desired.complete {
		return // it will be called again
	}
	for _, uid := range h.table.states.uids() {
		if !desired.has(uid) && h.table.pods[uid] == nil && !inRuntime[uid] {
			h.table.workers.RemoveOrphan(podworkers.RuntimePod{UID: uid})
		}
	}
}

// hasProcesses reports whether a container in a pod runs, or may start.
func (h *housekeeper) hasProcesses(p pleg.Pod) bool {
	status := h.table.lastStatus(p.UID)
	return p.Running && (status == nil || slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.State != runtime.ContainerExited
	}))
}

func runtimePod(p pleg.Pod) podworkers.RuntimePod {
	return podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
}
