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
)

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
