package loop

import (
	"context"
	"errors"
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
