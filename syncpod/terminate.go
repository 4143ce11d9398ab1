package syncpod

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Termination asks for a pod to be ended.
type Termination struct {
	// Pod is the pod. Required.
	Pod *v1.Pod
	// Status is what the runtime has of it. Nil means that it is read.
	Status *runtime.PodStatus
	// GraceSeconds is the time the pod is given, in place of its own. Nil means that
	// of its deletion (metadata.deletionGracePeriodSeconds), or else of its spec.
	GraceSeconds *int64
	// Deadline is when that time is over, if it began before now: when the pod was
	// asked to end. Zero means that it begins now.
	Deadline time.Time
}

// RuntimePod is a pod of which only the runtime knows.
type RuntimePod struct {
	UID             types.UID
	Name, Namespace string
	// Status is what the runtime has of it. Nil means that it is read.
	Status *runtime.PodStatus
}

const (
	// killRounds is how often a pod is looked at again for what became alive while
	// it was stopped.
	killRounds = 3
)

// SyncTerminatingPod ends a pod: it stops all its containers within the time
// given, and at most two seconds more, and then its sandboxes. It succeeds only
// when a last look has found nothing of the pod alive (kubernetes #88440), and
// reports the exit codes it has found, even if it fails.
//
// To shorten the time, end ctx and call it again: what was begun is not begun
// again, and what is left of it ends at the new deadline, even if the runtime
// still waits for the old one. After an error call it again, too. No call starts
// anything.
func (s *Syncer) SyncTerminatingPod(ctx context.Context, t Termination) error {
	if t.Pod == nil {
		return errors.New("syncpod: Termination.Pod is missing")
	}
	deadline := t.Deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(podGrace(t.Pod, t.GraceSeconds))
	}
	e := ending{Syncer: s, uid: t.Pod.UID, kill: podKill{pod: t.Pod, memory: s.known.of(t.Pod.UID), status: t.Status, deadline: deadline}}
	if err := e.run(ctx); err != nil {
		return fmt.Errorf("syncpod: end pod %s: %w", podName(t.Pod), err)
	}
	s.config.Log.Info("pod ended", "pod", podName(t.Pod), "podUID", t.Pod.UID)
	return nil
}

// SyncTerminatingRuntimePod ends a pod of which no spec is known, within one
// second, and forgets it.
func (s *Syncer) SyncTerminatingRuntimePod(ctx context.Context, p RuntimePod) error {
	if p.UID == "" {
		return errors.New("syncpod: RuntimePod.UID is missing")
	}
	e := ending{Syncer: s, uid: p.UID, kill: podKill{memory: s.known.of(p.UID), status: p.Status, deadline: time.Now().Add(runtimePodGrace)}}
	if err := e.run(ctx); err != nil {
		return fmt.Errorf("syncpod: end pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, err)
	}
	s.config.Log.Info("unknown pod ended", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
	s.forget(p.UID)
	return nil
}

// SyncTerminatedPod tidies up after a pod that SyncTerminatingPod has ended: it
// reports the pod a last time, calls all of Config.Clean and forgets the pod. It
// may be called again after an error.
func (s *Syncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) error {
	if pod == nil {
		return errors.New("syncpod: SyncTerminatedPod: the pod is nil")
	}
	report := s.newReport(pod, s.known.of(pod.UID))
	report.update(ctx, status, outlook{terminal: true})
	var errs []error
	for _, c := range s.config.Clean {
		errs = append(errs, c.CleanPod(ctx, pod))
	}
	errs = append(errs, report.wait(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("syncpod: tidy up after pod %s: %w", podName(pod), err)
	}
	s.forget(pod.UID)
	return nil
}

// forget drops all that is remembered of a pod.
func (s *Syncer) forget(uid types.UID) {
	s.known.forget(uid)
	s.config.Sandboxes.Forget(uid)
	s.config.Images.Forget(uid)
}

// ending is one run of SyncTerminatingPod.
type ending struct {
	*Syncer
	uid  types.UID
	kill podKill
}

func (e *ending) run(ctx context.Context) error {
	if e.kill.status == nil {
		if err := e.look(ctx); err != nil {
			return err
		}
	}
	report := e.reportBeside(ctx)
	err := e.rounds(ctx)
	return errors.Join(err, e.reportEnd(ctx, report))
}

// rounds stops what is alive, and looks again, until nothing is.
func (e *ending) rounds(ctx context.Context) error {
	for range killRounds {
		err := e.killPod(ctx, e.kill)
		if ctx.Err() != nil {
			return err
		}
		if err := errors.Join(err, e.look(ctx)); err != nil {
			return err
		}
		if !live(e.kill.status) {
			return nil
		}
	}
	return ErrStillRunning
}

func (e *ending) look(ctx context.Context) error {
	status, err := e.config.Statuses.PodStatus(ctx, e.uid, e.kill.status)
	if err != nil {
		return err
	}
	e.kill.memory.see(status)
	e.kill.status = status
	return nil
}

// reportBeside reports what is there while the pod is stopped: a report that
// takes long, or fails, must not hold up the stop (virtual-kubelet #938). Of a pod
// without a spec there is nothing to report.
func (e *ending) reportBeside(ctx context.Context) *report {
	if e.kill.pod == nil {
		return nil
	}
	report := e.newReport(e.kill.pod, e.kill.memory)
	report.update(ctx, e.kill.status, outlook{})
	return report
}

// reportEnd reports what is left.
func (e *ending) reportEnd(ctx context.Context, report *report) error {
	if report == nil {
		return nil
	}
	report.update(ctx, e.kill.status, outlook{terminal: !live(e.kill.status)})
	return report.wait(ctx)
}
