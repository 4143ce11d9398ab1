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
	// Deadline is the end of the grace period. Zero means that the pod's own grace period begins now. A deadline is never
	// extended: of all deadlines of a pod the earliest applies, including those before a restart of the agent if there are
	// Records.
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
		deadline = time.Now().Add(lifecycle.PodGrace(t.Pod))
	}
	m := s.memoryOf(ctx, t.Pod.UID)
	m.evict(t.Evicted.problem(), t.Disruption)
	if err := s.terminate(ctx, t.Pod, m, t.Status, m.hasten(deadline)); err != nil {
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
		m.load(ctx)
		m.Record(ctx)
	}
}

// SyncTerminatingRuntimePod stops a pod without a known spec, within one second, and forgets it
// unless p.Keep is set.
func (s *Syncer) SyncTerminatingRuntimePod(ctx context.Context, p RuntimePod) error {
	if p.UID == "" {
		return errors.New("syncpod: RuntimePod.UID is missing")
	}
	m := s.memoryOf(ctx, p.UID)
	if err := s.terminate(ctx, nil, m, p.Status, m.hasten(time.Now().Add(lifecycle.PodGrace(nil)))); err != nil {
		return fmt.Errorf("syncpod: end pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, m.secrets.redactErrorOfPod(err, nil))
	}
	s.config.Log.Info("unknown pod ended", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
	if !p.Keep {
		s.forget(ctx, p.UID, true)
	}
	return nil
}

// SyncTerminatedPod cleans up after a pod that SyncTerminatingPod has stopped: it reports the pod a last time, calls
// all Cleaners and forgets the pod. It may be called again after an error. The logs of the pod stay until [Syncer.Forget].
// An empty record stays with them, so that the next agent finds them.
func (s *Syncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) error {
	if pod == nil {
		return errors.New("syncpod: SyncTerminatedPod: the pod is nil")
	}
	report := s.newReport(pod, s.memoryOf(ctx, pod.UID))
	report.update(ctx, status, statusFacts{terminal: true, ended: true})
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

// terminate stops a pod and reports its end. pod is nil if its spec is unknown; then there is no status to report.
func (s *Syncer) terminate(ctx context.Context, pod *v1.Pod, m *podMemory, status *runtime.PodStatus, deadline time.Time) error {
	status, report, err := s.stop(ctx, pod, m, status, deadline)
	if report == nil {
		return err
	}
	ended := !status.Live()
	if devices, ok := s.config.Extensions.Devices.(PodDevices); ok && ended {
		unprepared := devices.UnpreparePod(ctx, pod.UID)
		err, ended = errors.Join(err, unprepared), unprepared == nil
	}
	report.update(ctx, status, statusFacts{terminal: ended, ended: ended})
	return errors.Join(err, report.wait(ctx))
}

// stop stops a pod. It returns the last status, and the report that was made during the stop, nil if there was none. The deadline
// is recorded while the pod is being stopped.
func (s *Syncer) stop(ctx context.Context, pod *v1.Pod, m *podMemory, status *runtime.PodStatus, deadline time.Time) (last *runtime.PodStatus, r *report, err error) {
	var recording sync.WaitGroup
	recording.Go(func() { m.Record(ctx) })
	defer func() {
		m.setChanged()
		recording.Wait()
		m.Record(ctx)
	}()
	inspect := func(ctx context.Context) (*runtime.PodStatus, error) {
		read, err := s.inspectEnd(ctx, pod, m, status)
		if err == nil {
			status = read
		}
		return read, err
	}
	if status == nil || m.isStale(status) {
		if _, err := inspect(ctx); err != nil {
			return nil, nil, err
		}
	}
	s.releaseMounts(m, func(string) bool { return true }) // no container of the pod starts any more
	r, reported := s.reportStop(ctx, pod, m, status)
	alive, err := s.stopper.TerminatePod(ctx, lifecycle.Pod{Spec: pod, Status: status, Memory: m, Deadline: deadline}, inspect)
	s.postStopExited(ctx, pod, m, status)
	if alive {
		err = errStillRunning
	}
	err = m.secrets.redactErrorOfPod(err, pod)
	if err != nil && ctx.Err() == nil {
		s.eventf(podref.Pod(pod), v1.EventTypeWarning, EventFailedKillPod, "error killing pod: %s", withoutIDs(err, idNames(status)...))
	}
	if r != nil {
		reported()
		status = r.newerOf(status)
	}
	return status, r, err
}

// inspectEnd reads and remembers the status of a pod that is being stopped. Unlike in a SyncPod, aborted starts stay in it,
// because no other start follows. A report omits them.
func (s *Syncer) inspectEnd(ctx context.Context, pod *v1.Pod, m *podMemory, last *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := s.read(ctx, m.uid, last)
	if err != nil {
		return nil, err
	}
	status = s.withMessages(pod, m, status)
	m.seeEnd(status)
	return status, nil
}

// reportStop reports the status while the pod is being stopped: at once, and when Observe finds another exit or a probe has
// another result, because the other containers may take their whole grace period. A slow or failed report must not delay the stop (virtual-kubelet #938). A pod without a spec has no
// status to report.
func (s *Syncer) reportStop(ctx context.Context, pod *v1.Pod, m *podMemory, status *runtime.PodStatus) (r *report, end func()) {
	if pod == nil {
		return nil, nil
	}
	r = s.newReport(pod, m)
	r.update(ctx, status, statusFacts{})
	return r, r.reportChanges(ctx, 0, false)
}
