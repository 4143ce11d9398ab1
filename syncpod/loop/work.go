package loop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
)

// syncer has the methods of a *syncpod.Syncer that a Loop calls.
type syncer interface {
	SyncPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) (syncpod.Result, error)
	SetDeadline(pod types.UID, deadline time.Time) (record func(context.Context))
	SyncTerminatingPod(ctx context.Context, t syncpod.Termination) error
	SyncTerminatingRuntimePod(ctx context.Context, p syncpod.RuntimePod) error
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) error
	Observe(ctx context.Context, status *runtime.PodStatus)
	ProbesChanged(pod types.UID)
	Explain(pod types.UID) string
	NextInput(pod types.UID, status *runtime.PodStatus) (actions.Input, bool)
	RecordedPods(ctx context.Context) ([]types.UID, error)
	Forget(ctx context.Context, pod types.UID) error
}

var _ syncer = (*syncpod.Syncer)(nil)

// podSyncer makes the calls of the workers with a syncer.
type podSyncer struct {
	table   *podTable
	syncer  syncer
	probes  syncpod.Probes
	sink    sink
	remover remover
}

var _ podworkers.Syncer = podSyncer{}

func (l *Loop) podSyncer() podSyncer {
	return podSyncer{
		table: l.table, syncer: l.syncer, probes: l.config.Sync.Parts.Probes, sink: l.sink,
		remover: remover{
			config: &l.config, table: l.table, sources: l.sources, syncer: l.syncer, fresh: l.fresh,
			removals: make(chan struct{}, parallelRemovals), deletions: make(chan struct{}, parallelRemovals),
		},
	}
}

func (s podSyncer) SyncPod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) (podworkers.Result, error) {
	s.probes.Observe(w.Pod, status, false)
	result, err := s.syncer.SyncPod(ctx, w.Pod, status)
	acted := !result.Plan.NoOp() && ctx.Err() == nil
	s.table.states.update(w.UID, func(state *podState) { state.acted, state.leaves = acted, undone(result) })
	if err := s.sink.repeat(ctx, w.Pod); err != nil {
		s.table.log(w.Pod).Error(err, "status not delivered")
	}
	return podworkers.Result{Terminal: result.Terminal, Next: result.NextTry}, err
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

func (s podSyncer) SyncTerminatingPod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	pod := s.table.ofSource(w.Pod)
	s.probes.Observe(pod, status, true)
	t := syncpod.Termination{Pod: pod, Status: status, Deadline: w.Deadline}
	if w.Report != nil {
		t.Evicted = &syncpod.Rejection{Reason: w.Report.Reason, Message: w.Report.Message}
		t.Disruption = w.Report.Disruption
	}
	err := s.syncer.SyncTerminatingPod(ctx, t)
	s.noteStopped(w.UID, status, err)
	return err
}

// noteStopped records which sandboxes of a pod are stopped when the pod has stopped.
func (s podSyncer) noteStopped(uid types.UID, status *runtime.PodStatus, err error) {
	if err != nil || status == nil {
		return
	}
	var ids []string
	for _, sb := range status.Sandboxes {
		ids = append(ids, sb.ID)
	}
	s.table.states.update(uid, func(state *podState) { state.sandboxesStopped = ids })
}

func (s podSyncer) SyncTerminatingRuntimePod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	keep := s.table.states.get(w.UID).phase == podworkers.Terminated
	err := s.syncer.SyncTerminatingRuntimePod(ctx, syncpod.RuntimePod{
		UID: w.UID, Name: w.RuntimePod.Name, Namespace: w.RuntimePod.Namespace, Status: status, Keep: keep,
	})
	s.noteStopped(w.UID, status, err)
	return err
}

func (s podSyncer) SyncTerminatedPod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	s.probes.Forget(w.UID)
	pod := s.table.ofSource(w.Pod)
	err := s.syncer.SyncTerminatedPod(ctx, pod, status)
	return errors.Join(err, s.sink.repeat(ctx, pod))
}

func (s podSyncer) RemovePod(ctx context.Context, w podworkers.Work, status *runtime.PodStatus) error {
	return s.remover.removePod(ctx, w, status)
}

// tracker keeps the state of each pod current, in the order of a pod's life.
type tracker struct{ loop *Loop }

var _ podworkers.Tracker = tracker{}

func (t tracker) PodAdded(uid types.UID) {
	t.loop.states.update(uid, func(s *podState) {
		s.phase, s.worked, s.inspectedAt = podworkers.Syncing, new(atomic.Bool), time.Time{}
	})
}

// WorkStarted persists the deadline of a pod that is being stopped. The call that stops it follows
// when the runtime has reported the pod, and this agent may have ended by then.
func (t tracker) WorkStarted(w podworkers.Work) {
	l := t.loop
	switch w.Type {
	case podworkers.RemovePod:
		l.states.removalBegan(w)
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

// WorkEnded requests an inspection of the result, with or without events (kubernetes #137362). The next call uses that inspection,
// which therefore starts after the end of this one, unless the last inspection of a stop suffices.
func (t tracker) WorkEnded(w podworkers.Work, err error) {
	var acted bool
	switch w.Type {
	case podworkers.RemovePod:
		t.loop.states.removalFailed(w.UID, err)
	default:
		t.loop.states.update(w.UID, func(s *podState) { acted = s.ended(w, err, time.Now()) })
	}
	if w.Type == podworkers.SyncTerminatingRuntimePod {
		acted = true // nothing else causes an inspection of the pod
	}
	t.loop.watcher.Release(w.UID, acted)
}

// PhaseChanged makes housekeeping remove finished pods immediately. Two phases of a short life may be reported in
// either order, so the later phase counts; the next life begins with PodAdded.
func (t tracker) PhaseChanged(uid types.UID, _, to podworkers.Phase) {
	l := t.loop
	if to != podworkers.Forgotten {
		l.states.update(uid, func(s *podState) { s.phase = max(s.phase, to) })
	} else if l.sources.wants(uid) {
		l.table.reconcile.raise() // a new pod with the UID has waited
	}
	if to == podworkers.Finished || to == podworkers.Forgotten {
		l.table.housekeeping.raise()
	}
	if to == podworkers.Finished {
		l.config.Finished(uid)
	}
}
