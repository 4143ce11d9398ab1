package loop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/worker"
)

// work is what the workers call for a pod. Its methods are in the order of a pod's life. Each call of package worker is
// preceded by WorkStarted and GetNewerThan, and followed by WorkEnded.
type work struct {
	*worker.Worker
	loop *Loop
}

var (
	_ podworkers.Tracker      = work{}
	_ podworkers.StatusSource = work{}
	_ podworkers.Syncer       = work{}
)

func (l *Loop) newWork() (work, error) {
	parts := &l.config.Sync.Parts
	w, err := worker.New(worker.Config{
		Syncer: l.syncer, Runtime: l.config.Client, Sandboxes: parts.Sandboxes, Statuses: removed{l.config.Reader, l}, Probes: parts.Probes,
		Store: l.config.Store, Synced: l.synced,
	})
	return work{w, l}, err
}

// PodAdded begins a life of a pod.
func (j work) PodAdded(uid types.UID) {
	j.loop.states.update(uid, func(s *podState) {
		s.worked, s.inspectedAt = new(atomic.Bool), time.Time{}
	})
}

// WorkStarted persists the deadline of a pod that is being stopped. The call that stops it follows
// when the runtime has reported the pod, and this agent may have ended by then.
func (j work) WorkStarted(w podworkers.Work) {
	l := j.loop
	switch w.Type {
	case podworkers.RemovePod:
		l.states.updateKnown(w.UID, func(s *podState) { s.begin(w, time.Now()) })
	default:
		l.states.worked(w.UID).Store(true)
		l.states.update(w.UID, func(s *podState) { s.started(w, time.Now()) })
	}
	if w.Type == podworkers.SyncTerminatingPod {
		record := l.syncer.SetDeadline(w.UID, w.Deadline)
		l.children.Go(func() { record(context.Background()) })
	}
	l.watcher.Hold(w.UID)
}

// GetNewerThan returns the status of a pod from a read after since. If the pod has stopped, the last inspection
// during the stop is sufficient, too.
func (j work) GetNewerThan(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	if state := j.loop.states.get(uid); state.inspectionCovers(since) && state.inspectedAt.Before(since) {
		since = state.inspectedAt
	}
	return j.loop.fresh(ctx, uid, since)
}

// SyncPod syncs a pod, and delivers a status that the Syncer has not delivered.
func (j work) SyncPod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) (podworkers.Result, error) {
	result, err := j.Worker.SyncPod(ctx, w, status)
	if err := j.loop.sink.repeat(ctx, w.Pod); err != nil {
		j.loop.table.log(w.Pod).Error(err, "status not delivered")
	}
	return result, err
}

// synced notes whether a SyncPod has changed something, and what it has left undone.
func (l *Loop) synced(ctx context.Context, uid types.UID, result syncpod.Result) {
	acted := !result.Plan.NoOp() && ctx.Err() == nil
	l.states.update(uid, func(state *podState) { state.acted, state.leaves = acted, undone(result) })
}

// undone returns the errors of steps that back off. A crash does not count, because the node is not its
// cause.
func undone(r syncpod.Result) error {
	var errs []error
	for _, f := range r.Failed {
		if f.Waits && f.Reason != syncpod.ErrCrashLoopBackOff {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// SyncTerminatingPod stops a pod by its deadline.
func (j work) SyncTerminatingPod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	w.Pod = j.loop.table.ofSource(w.Pod)
	return j.stopped(w.UID, status, j.Worker.SyncTerminatingPod(ctx, w, status))
}

// SyncTerminatingRuntimePod stops a pod whose spec is unknown, or what still runs of a pod that has ended.
func (j work) SyncTerminatingRuntimePod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	return j.stopped(w.UID, status, j.Worker.SyncTerminatingRuntimePod(ctx, w, status))
}

// stopped records which sandboxes of a pod are stopped when the pod has stopped.
func (j work) stopped(uid types.UID, status *runtime.PodStatus, err error) error {
	if err != nil || status == nil {
		return err
	}
	var ids []string
	for _, sb := range status.Sandboxes {
		ids = append(ids, sb.ID)
	}
	j.loop.states.update(uid, func(state *podState) { state.sandboxesStopped = ids })
	return nil
}

// SyncTerminatedPod reports a pod a last time.
func (j work) SyncTerminatedPod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	w.Pod = j.loop.table.ofSource(w.Pod)
	err := j.Worker.SyncTerminatedPod(ctx, w, status)
	return errors.Join(err, j.loop.sink.repeat(ctx, w.Pod))
}

// RemovePod removes everything of a pod from the node, as RemovePod of package worker does, but for the records of a pod that a
// source may still want.
func (j work) RemovePod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	l := j.loop
	if w.Pod != nil { // its work has ended: nothing depends on its status
		if err := l.config.Store.Delete(ctx, w.UID); err != nil {
			l.config.Log.Error(err, "the status of a pod is not deleted", "podUID", w.UID)
		}
	}
	if err := j.RemoveFromRuntime(ctx, w.UID, status, l.states.get(w.UID).sandboxesStopped); err != nil {
		return err
	}
	wanted := l.sources.wants(w.UID)
	if !wanted && !l.sources.unwanted(w.UID) {
		l.table.drop(w, true) // a source that has not delivered yet may want the pod with its records
		return nil
	}
	unfinished, err := j.DeleteRecords(ctx, w.UID)
	if err != nil && (!wanted || unfinished) || ctx.Err() != nil {
		return err // a new pod with the UID must not get a directory that is still being removed
	}
	if err != nil { // a new pod with the UID does not wait for the disk
		l.config.Log.Error(err, "records of a pod are not deleted", "podUID", w.UID)
	}
	l.table.drop(w, false)
	return nil
}

// WorkEnded requests an inspection of the result, with or without events (kubernetes #137362). The next call uses that inspection,
// which therefore starts after the end of this one, unless the last inspection of a stop suffices.
func (j work) WorkEnded(w podworkers.Work, err error) {
	var acted bool
	switch w.Type {
	case podworkers.RemovePod:
		j.loop.states.updateKnown(w.UID, func(s *podState) { s.err, s.slowAt = err, time.Time{} })
	default:
		j.loop.states.update(w.UID, func(s *podState) { acted = s.ended(w, err, time.Now()) })
	}
	if w.Type == podworkers.SyncTerminatingRuntimePod {
		acted = true // nothing else causes an inspection of the pod
	}
	j.loop.watcher.Release(w.UID, acted)
}

// PhaseChanged makes housekeeping remove finished pods immediately.
func (j work) PhaseChanged(uid types.UID, from, to podworkers.Phase) {
	l := j.loop
	if to.HasStopped() && !from.HasStopped() {
		l.states.ended()
	}
	if to == podworkers.Forgotten && l.sources.wants(uid) {
		l.table.reconcile.raise() // a new pod with the UID has waited
	}
	if to == podworkers.Finished || to == podworkers.Forgotten {
		l.table.housekeeping.raise()
	}
	if to == podworkers.Finished {
		l.config.Finished(uid)
	}
}
