// Package worker makes a syncpod.Syncer the Syncer of podworkers, for a program with a loop of its own. In a kubelet these
// are the podSyncer methods SyncPod, SyncTerminatingPod, SyncTerminatingRuntimePod and SyncTerminatedPod, and the removal of
// a pod from the node, which a kubelet leaves to its garbage collections.
//
// The caller provides the parts that it has also given to the Syncer. It passes each status that it reads to Observe of the
// Syncer, and runs the workers. A Worker guarantees that RemovePod succeeds only when an inspection after the removal has
// found nothing of the pod in the runtime, and the Syncer has forgotten the pod: then a new pod may have its UID.
//
// A Worker keeps nothing of a pod. Its methods may be called concurrently for different pods.
package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
)

// Config configures a Worker.
type Config struct {
	// Syncer does the work. Required.
	Syncer *syncpod.Syncer
	// Runtime removes sandboxes. Required. A *cri.Client implements it.
	Runtime Runtime
	// Sandboxes stops sandboxes, and Statuses reads pods. Required. They are Parts of the Syncer's Config, such as a
	// *run.Runner and a *reader.Reader.
	Sandboxes Sandboxes
	Statuses  syncpod.StatusReader
	// Probes are the Syncer's. Default: none.
	Probes syncpod.Probes
	// Store has the reported statuses. RemovePod deletes the pod's, because a new pod with the UID would count as finished.
	// Default: none.
	Store Store
	// Synced is called after each SyncPod with its result. Default: nothing.
	Synced func(ctx context.Context, pod types.UID, result syncpod.Result)
	// Stopped is called when a pod has stopped, Ended when its last status was reported, and Removed when nothing of it is
	// left. With a *podworkers.Desired they call Stopped, Look and Forgotten. Default: nothing.
	Stopped, Ended, Removed func(pod types.UID)
}

// Runtime is the part of CRI that a Worker calls.
type Runtime interface {
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error)
}

// Store is the part of a store.Store that a Worker calls.
type Store interface {
	Delete(ctx context.Context, pod types.UID) error
}

// Sandboxes stops sandboxes.
type Sandboxes interface {
	// Stop stops a sandbox. It succeeds if the sandbox does not exist.
	Stop(ctx context.Context, id string) error
}

// A Worker is a podworkers.Syncer. Create it with New.
type Worker struct {
	config Config
	// removals are slots for removing pods from the runtime, deletions for deleting what else the node has of them.
	removals, deletions slots
}

// parallelRemovals is the number of slots for removals and for deletions.
const parallelRemovals = 4

// removalTimeout limits one attempt to remove or to delete what is left of a pod, so that other pods do not wait for it. A later
// attempt continues.
const removalTimeout = time.Minute

type slots chan struct{}

// take waits for a slot. The returned context ends after removalTimeout. The caller must call release.
func (s slots) take(ctx context.Context) (_ context.Context, release func(), err error) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return ctx, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	return ctx, func() { cancel(); <-s }, nil
}

var _ podworkers.Syncer = (*Worker)(nil)

// New returns a Worker. It makes no call.
func New(c Config) (*Worker, error) {
	for _, f := range []struct {
		name    string
		missing bool
	}{{"Syncer", c.Syncer == nil}, {"Runtime", c.Runtime == nil}, {"Sandboxes", c.Sandboxes == nil}, {"Statuses", c.Statuses == nil}} {
		if f.missing {
			return nil, fmt.Errorf("worker: Config.%s is missing", f.name)
		}
	}
	if c.Probes == nil {
		c.Probes = syncpod.NoProbes{}
	}
	if c.Synced == nil {
		c.Synced = func(context.Context, types.UID, syncpod.Result) {}
	}
	for _, f := range []*func(types.UID){&c.Stopped, &c.Ended, &c.Removed} {
		if *f == nil {
			*f = func(types.UID) {}
		}
	}
	return &Worker{config: c, removals: make(slots, parallelRemovals), deletions: make(slots, parallelRemovals)}, nil
}

// SyncPod calls SyncPod of the Syncer.
func (w *Worker) SyncPod(ctx context.Context, work podworkers.Work, status *runtime.PodStatus) (podworkers.Result, error) {
	w.config.Probes.Observe(work.Pod, status, false)
	result, err := w.config.Syncer.SyncPod(ctx, work.Pod, status)
	w.config.Synced(ctx, work.UID, result)
	return podworkers.Result{Terminal: result.Terminal, Next: result.NextTry}, err
}

// SyncTerminatingPod stops a pod by its deadline.
func (w *Worker) SyncTerminatingPod(ctx context.Context, work podworkers.Work, status *runtime.PodStatus) error {
	w.config.Probes.Observe(work.Pod, status, true)
	t := syncpod.Termination{Pod: work.Pod, Status: status, Deadline: work.Deadline}
	if work.Report != nil {
		t.Evicted = &syncpod.Rejection{Reason: work.Report.Reason, Message: work.Report.Message}
		t.Disruption = work.Report.Disruption
	}
	return w.stopped(work.UID, w.config.Syncer.SyncTerminatingPod(ctx, t))
}

// SyncTerminatingRuntimePod stops a pod whose spec is unknown, or what still runs of a pod that has ended.
func (w *Worker) SyncTerminatingRuntimePod(ctx context.Context, work podworkers.Work, status *runtime.PodStatus) error {
	return w.stopped(work.UID, w.config.Syncer.SyncTerminatingRuntimePod(ctx, syncpod.RuntimePod{
		UID: work.UID, Name: work.RuntimePod.Name, Namespace: work.RuntimePod.Namespace, Status: status, Keep: work.Keep,
	}))
}

// stopped reports a stop that has succeeded.
func (w *Worker) stopped(uid types.UID, err error) error {
	if err == nil {
		w.config.Stopped(uid)
	}
	return err
}

// SyncTerminatedPod reports a pod a last time.
func (w *Worker) SyncTerminatedPod(ctx context.Context, work podworkers.Work, status *runtime.PodStatus) error {
	w.config.Probes.Forget(work.UID)
	defer w.config.Ended(work.UID)
	return w.config.Syncer.SyncTerminatedPod(ctx, work.Pod, status)
}

// RemovePod removes a pod from the runtime, and then what the node keeps for it, its records last: by these the next agent finds
// the rest if this one is killed.
func (w *Worker) RemovePod(ctx context.Context, work podworkers.Work, status *runtime.PodStatus) error {
	if err := w.RemoveFromRuntime(ctx, work.UID, status, nil); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if _, err := w.DeleteRecords(ctx, work.UID); err != nil {
		return err
	}
	w.config.Removed(work.UID)
	return nil
}

// RemoveFromRuntime stops and removes the sandboxes of a pod with their containers. It fails unless a last inspection finds
// that none is left. It stops also sandboxes that are not ready, because their network may still exist (containerd #5768), but
// not those in stopped, which the caller has stopped. A pod may wait for the removal of others, and has a minute from then on.
func (w *Worker) RemoveFromRuntime(ctx context.Context, uid types.UID, status *runtime.PodStatus, stopped []string) error {
	w.config.Probes.Forget(uid)
	if status.Empty() {
		return nil
	}
	ctx, release, err := w.removals.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	for _, sb := range status.Sandboxes {
		if !slices.Contains(stopped, sb.ID) {
			if err := w.config.Sandboxes.Stop(ctx, sb.ID); err != nil {
				return fmt.Errorf("stop sandbox %s of pod %s: %w", sb.ID, uid, cri.Withhold(err))
			}
		}
		_, err := w.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sb.ID})
		if err := cri.Withhold(cri.IgnoreNotFound(err)); err != nil { // no memory of the pod has its values any more
			return fmt.Errorf("sandbox %s of pod %s: %w", sb.ID, uid, err)
		}
	}
	left, err := w.config.Statuses.PodStatus(ctx, uid, nil)
	if err == nil && !left.Empty() {
		err = fmt.Errorf("pod %s: %d sandboxes and %d containers are left", uid, len(left.Sandboxes), len(left.Containers))
	}
	return err
}

// DeleteRecords deletes a pod's directory, its record and its stored status. The directory may be large: after a minute the
// deletion is unfinished, other pods get the slot, and the next try continues. The error does not say that, because a part of the
// deletion may have its own timeouts.
func (w *Worker) DeleteRecords(ctx context.Context, uid types.UID) (unfinished bool, err error) {
	ctx, release, err := w.deletions.take(ctx)
	if err != nil {
		return true, err
	}
	defer release()
	err = w.config.Syncer.Forget(ctx, uid)
	if w.config.Store != nil && (err == nil || ctx.Err() == nil) {
		err = errors.Join(err, w.config.Store.Delete(ctx, uid))
	}
	return ctx.Err() != nil, err
}
