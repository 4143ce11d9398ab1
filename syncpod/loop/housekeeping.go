package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/pleg"
)

// housekeepingInterval is the wait before a failed cleanup is retried.
const housekeepingInterval = 2 * time.Second

// housekeeper makes the workers stop and remove pods that no source wants.
type housekeeper struct {
	table    *podTable
	sources  *feeds
	watcher  *pleg.Watcher
	interval time.Duration
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
		h.rest(ctx, housekeepingCost*time.Since(began))
	}
}

// housekeepingCost is the pause after a housekeeping, as a multiple of its duration: each one compares all pods, and
// while many pods end it is always requested.
const housekeepingCost = 9

func (h *housekeeper) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(min(d, h.interval))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

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

const (
	// parallelRemovals is the maximum number of pods that are removed from the runtime at a time, and
	// of pods whose records are deleted at a time.
	parallelRemovals = 4
	// removalTimeout limits one attempt to remove a pod from the runtime, and one attempt to delete its
	// directory and records, so that other pods do not wait for it. A later attempt removes the rest.
	removalTimeout = time.Minute
)

// remover removes everything that belongs to a pod from the node.
type remover struct {
	config  *Config
	table   *podTable
	sources *feeds
	syncer  syncer
	// fresh returns the status of a pod from a read since the given time.
	fresh func(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error)
	// removals are slots for removing pods from the runtime, and deletions those for deleting
	// pod records.
	removals, deletions chan struct{}
}

// removePod removes everything of a pod from the node: first from the runtime, then directories, devices and cgroups,
// and finally the records, by which the next agent finds the rest if this one is killed. With a remaining record, a new
// pod with the UID would count as finished.
func (r remover) removePod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	r.config.Sync.Parts.Probes.Forget(w.UID)
	if w.Pod != nil { // its work has ended: nothing depends on its status
		if err := r.config.Store.Delete(ctx, w.UID); err != nil {
			r.config.Log.Error(err, "the status of a pod is not deleted", "podUID", w.UID)
		}
	}
	if err := r.removeFromRuntime(ctx, status); err != nil {
		return err
	}
	wanted := r.sources.wants(w.UID)
	if !wanted && !r.sources.unwanted(w.UID) {
		r.table.drop(w, true) // a source that has not delivered yet may want the pod with its records
		return nil
	}
	unfinished, err := r.deleteRecords(ctx, w.UID)
	if err != nil && (!wanted || unfinished) || ctx.Err() != nil {
		return err // a new pod with the UID must not get a directory that is still being removed
	}
	if err != nil { // a new pod with the UID does not wait for the disk
		r.config.Log.Error(err, "records of a pod are not deleted", "podUID", w.UID)
	}
	r.table.drop(w, false)
	return nil
}

// removeFromRuntime removes a pod's containers and sandboxes. It fails unless a last inspection finds that
// none is left.
func (r remover) removeFromRuntime(ctx context.Context, status *runtime.PodStatus) error {
	if status.Empty() {
		return nil
	}
	release, err := take(ctx, r.removals)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	if err := r.removeSandboxes(ctx, status); err != nil {
		return err
	}
	left, err := r.fresh(ctx, status.UID, time.Now())
	if err == nil && !left.Empty() {
		err = fmt.Errorf("pod %s: %d sandboxes and %d containers are left", left.UID, len(left.Sandboxes), len(left.Containers))
	}
	return err
}

// take acquires a slot.
func take(ctx context.Context, slots chan struct{}) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// removeSandboxes stops sandboxes before it removes them, even those that are not ready: their
// network may still exist (containerd #5768). It does not stop again those that this agent has
// stopped.
func (r remover) removeSandboxes(ctx context.Context, status *runtime.PodStatus) error {
	stopped := r.table.states.get(status.UID).sandboxesStopped
	for _, sb := range status.Sandboxes {
		if !slices.Contains(stopped, sb.ID) {
			if err := r.config.Sync.Parts.Sandboxes.Stop(ctx, sb.ID); err != nil {
				return fmt.Errorf("stop sandbox %s of pod %s: %w", sb.ID, status.UID, cri.Withhold(err))
			}
		}
		_, err := r.config.Client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sb.ID})
		if err := cri.Withhold(cri.IgnoreNotFound(err)); err != nil { // no memory of the pod has its values any more
			return fmt.Errorf("sandbox %s of pod %s: %w", sb.ID, status.UID, err)
		}
	}
	return nil
}

// deleteRecords deletes a pod's directory, its record and its status. The directory may be large:
// after removalTimeout the deletion is unfinished, other pods get the slot, and the next try
// continues. The error does not say that: a part of the deletion may have its own timeouts.
func (r remover) deleteRecords(ctx context.Context, uid types.UID) (unfinished bool, err error) {
	release, err := take(ctx, r.deletions)
	if err != nil {
		return true, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	err = r.syncer.Forget(ctx, uid)
	if err == nil || ctx.Err() == nil {
		err = errors.Join(err, r.config.Store.Delete(ctx, uid))
	}
	return ctx.Err() != nil, err
}
