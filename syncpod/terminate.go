package syncpod

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/lifecycle"
	podmemory "github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// Termination requests the termination of a pod.
type Termination struct {
	// Pod is the pod. Required. A static pod that ends for good needs a metadata.deletionTimestamp:
	// without it, the status is reported as if the agent were about to start the pod again, and not as
	// Succeeded or Failed.
	Pod *v1.Pod
	// Status is the pod's status in the runtime. If it is nil, the Syncer reads it.
	Status *runtime.PodStatus
	// GraceSeconds is the grace period, in place of the pod's own. Nil means that of its deletion
	// (metadata.deletionGracePeriodSeconds), or else that of its spec.
	GraceSeconds *int64
	// Deadline is the end of the grace period, if it began before now, when the termination of the pod
	// was requested. Zero means that the grace period begins now. A deadline is never extended: of
	// all deadlines of a pod the earliest applies, including those before a restart of the agent if
	// there are Records.
	Deadline time.Time
	// Evicted is why the node stops a pod that is still desired. The pod is reported as Failed for this
	// reason, whatever the exits of its containers. Nil if the pod is no longer desired. Of several
	// reasons, the first one counts.
	Evicted *Rejection
	// Disruption means that the node is the cause, not the pod: together with Evicted, the pod also
	// gets the condition DisruptionTarget.
	Disruption bool
}

// RuntimePod is a pod that only the runtime knows.
type RuntimePod struct {
	UID             types.UID
	Name, Namespace string
	// Status is the pod's status in the runtime. If it is nil, the Syncer reads it.
	Status *runtime.PodStatus
	// Keep means that the pod is known nevertheless, and that SyncTerminatedPod follows: its
	// memory, such as its exit codes, is kept for that call.
	Keep bool
}

// SyncTerminatingPod stops a pod: it stops all its containers within the deadline, with two more
// seconds for a container that gets its stop signal only at the end, and then its sandboxes. If the
// runtime does not kill in time, the kill is repeated, and the sandbox stopped, for at most
// Config.Limits.StopTimeout longer. It succeeds only when a final inspection has found nothing of
// the pod alive (kubernetes #88440), and reports the exit codes that it has found, even if it
// fails.
//
// To shorten the deadline, end ctx and call it again: steps in progress are not repeated, and end
// at the new deadline, even if the runtime still waits for the old one. Also call it again after an
// error. No call starts anything.
func (s *Syncer) SyncTerminatingPod(ctx context.Context, t Termination) error {
	if t.Pod == nil {
		return errors.New("syncpod: Termination.Pod is missing")
	}
	deadline := t.Deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(lifecycle.PodGrace(t.Pod, t.GraceSeconds))
	}
	m := s.remember(ctx, t.Pod.UID)
	m.do(func(p *podmemory.Pod) { p.Evict(t.Evicted.problem(), t.Disruption) })
	e := ending{syncer: s, pod: t.Pod, memory: m, status: t.Status, deadline: m.hasten(deadline)}
	if err := e.run(ctx); err != nil {
		return fmt.Errorf("syncpod: end pod %s: %w", podref.Name(t.Pod), m.secrets.redactErrorOfPod(err, t.Pod))
	}
	s.log(t.Pod).Info("pod ended")
	return nil
}

// SetDeadline records a pod's deadline while SyncTerminatingPod cannot run because the runtime has
// not returned a status. It does not block; the caller runs the returned function, which persists
// the deadline within two seconds, if there are Records. It may run in another goroutine.
func (s *Syncer) SetDeadline(pod types.UID, deadline time.Time) (record func(context.Context)) {
	m := s.known.of(pod)
	m.hasten(deadline)
	return func(ctx context.Context) {
		s.load(ctx, m)
		s.record(ctx, m)
	}
}

// SyncTerminatingRuntimePod stops a pod without a known spec, within one second, and forgets it
// unless p.Keep is set.
func (s *Syncer) SyncTerminatingRuntimePod(ctx context.Context, p RuntimePod) error {
	if p.UID == "" {
		return errors.New("syncpod: RuntimePod.UID is missing")
	}
	m := s.remember(ctx, p.UID)
	e := ending{syncer: s, memory: m, status: p.Status, deadline: m.hasten(time.Now().Add(lifecycle.PodGrace(nil, nil)))}
	if err := e.run(ctx); err != nil {
		return fmt.Errorf("syncpod: end pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, m.secrets.redactErrorOfPod(err, nil))
	}
	s.config.Log.Info("unknown pod ended", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
	if !p.Keep {
		s.forget(ctx, p.UID, true)
	}
	return nil
}

// SyncTerminatedPod cleans up after a pod that SyncTerminatingPod has stopped: it reports the pod a last time, calls
// all Cleaners and forgets the pod. It may be called again after an error. The logs of the pod stay until [Syncer.Forget], and
// with them an empty record, by which the next agent finds them.
func (s *Syncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) error {
	if pod == nil {
		return errors.New("syncpod: SyncTerminatedPod: the pod is nil")
	}
	report := s.newReport(pod, s.remember(ctx, pod.UID))
	report.update(ctx, status, outlook{terminal: true, ended: true})
	var errs []error
	for _, c := range s.config.Parts.Clean {
		errs = append(errs, c.RemovePod(ctx, pod.UID))
	}
	errs = append(errs, report.wait(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("syncpod: tidy up after pod %s: %w", podref.Name(pod), err)
	}
	_, logsLeft := s.config.Parts.Logs.(Cleaner)
	s.forget(ctx, pod.UID, logsLeft)
	return nil
}

// forget drops the memory of a pod. A record that cannot be deleted is deleted when an agent finds
// that its pod no longer exists.
func (s *Syncer) forget(ctx context.Context, uid types.UID, partLeft bool) {
	if err := s.drop(ctx, uid, partLeft); err != nil {
		s.config.Log.Error(err, "the record of a pod was not deleted", "podUID", uid)
	}
}

// ending is one run of SyncTerminatingPod.
type ending struct {
	syncer   *Syncer
	pod      *v1.Pod // nil if its spec is unknown
	memory   *podMemory
	status   *runtime.PodStatus
	deadline time.Time
}

func (e *ending) run(ctx context.Context) error {
	report, err := e.stop(ctx)
	return errors.Join(err, e.reportEnd(ctx, report))
}

// stop stops the pod, and returns the report that was made during the stop.
func (e *ending) stop(ctx context.Context) (*report, error) {
	recorded := e.recordBeside(ctx)
	defer e.syncer.record(ctx, e.memory)
	defer recorded()
	defer e.memory.setChanged()
	if e.status == nil || e.memory.isStale(e.status) {
		if _, err := e.inspect(ctx); err != nil {
			return nil, err
		}
	}
	e.syncer.releaseMounts(e.memory, func(string) bool { return true }) // no container of the pod starts any more
	report, reported := e.reportBeside(ctx)
	defer reported()
	pod := lifecycle.Pod{Spec: e.pod, Status: e.status, Memory: e.syncer.stopMemory(e.memory), Deadline: e.deadline}
	alive, err := e.syncer.stopper.TerminatePod(ctx, pod, e.inspect)
	e.syncer.postStopExited(ctx, e.pod, e.memory, e.status)
	if alive {
		err = errStillRunning
	}
	err = e.memory.secrets.redactErrorOfPod(err, e.pod)
	if err != nil && ctx.Err() == nil {
		e.syncer.eventf(podref.Pod(e.pod), v1.EventTypeWarning, EventFailedKillPod, "error killing pod: %s", withoutIDs(err, idNames(e.status)...))
	}
	return report, err
}

// inspect reads the status. Unlike in a SyncPod, aborted starts stay in it, because no other start follows. A report
// omits them.
func (e *ending) inspect(ctx context.Context) (*runtime.PodStatus, error) {
	status, err := e.syncer.read(ctx, e.memory.uid, e.status)
	if err != nil {
		return nil, err
	}
	status = e.syncer.withMessages(e.pod, e.memory, status)
	e.memory.do(func(p *podmemory.Pod) { p.See(status) })
	e.status = status
	return status, nil
}

// recordBeside records the deadline of the pod while the pod is being stopped.
func (e *ending) recordBeside(ctx context.Context) (wait func()) {
	var recording sync.WaitGroup
	recording.Go(func() { e.syncer.record(ctx, e.memory) })
	return recording.Wait
}

// reportBeside reports the status while the pod is being stopped: the current one, and each in which Observe finds another
// exit or a probe has another result, because the other containers may take their whole grace period, and the runtime may
// take longer to answer. A slow or failed report must not delay the stop (virtual-kubelet #938). A pod without a spec has no
// status to report.
func (e *ending) reportBeside(ctx context.Context) (r *report, end func()) {
	if e.pod == nil {
		return nil, func() {}
	}
	r = e.syncer.newReport(e.pod, e.memory)
	r.update(ctx, e.status, outlook{})
	reported := r.beside(ctx, 0, false)
	return r, func() {
		reported()
		e.status = r.newest(e.status)
	}
}

// reportEnd reports the final status.
func (e *ending) reportEnd(ctx context.Context, report *report) error {
	if report == nil {
		return nil
	}
	ended := !e.status.Live()
	report.update(ctx, e.status, outlook{terminal: ended, ended: ended})
	return report.wait(ctx)
}
