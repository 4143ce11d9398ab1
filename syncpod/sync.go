package syncpod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// Result is what a SyncPod has come to.
type Result struct {
	// Plan is what was to be done.
	Plan actions.Plan
	// Over is set if the pod has had its run and was stopped: nothing of it is
	// started any more, and it is to be ended with SyncTerminatingPod.
	Over bool
	// Failed is what keeps containers from running, in the order of the plan: what
	// failed now, and what waits because it failed before.
	Failed []*StepError
	// NextTry is when the first of them may be tried again, zero if none waits.
	NextTry time.Time
}

// SyncPod brings a pod one step closer to what it should be: it looks, reports,
// decides with package actions and carries the plan out. status is what the
// runtime has of the pod, read after the last SyncPod of it has returned; nil
// means that SyncPod reads it.
//
// The error joins all that failed. That something waits for its back-off is no
// error; Result.NextTry says when to come again. When ctx ends, so does all that
// is in flight, and SyncPod returns; what was left half done is found by the next.
func (s *Syncer) SyncPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) (Result, error) {
	if err := (actions.Input{Pod: pod}).Validate(); err != nil {
		return Result{}, fmt.Errorf("syncpod: %w", err)
	}
	if pod.UID == "" {
		return Result{}, fmt.Errorf("syncpod: pod %s/%s: metadata.uid is empty", pod.Namespace, pod.Name)
	}
	w := &work{Syncer: s, pod: pod, memory: s.remember(ctx, pod.UID)}
	if err := w.look(ctx, status); err != nil {
		return Result{}, err
	}
	reported := w.report(ctx, w.memory.lastFailed())
	w.plan = w.decide()
	err := w.carryOut(ctx)
	if w.memory.setFailed(w.failed) {
		reported = errors.Join(reported, w.report(ctx, w.failed))
	}
	return w.result(), errors.Join(err, reported)
}

// work is one SyncPod.
type work struct {
	*Syncer
	pod    *v1.Pod
	status *runtime.PodStatus
	memory *memory
	plan   actions.Plan
	// blocked are the containers, by name, that must not be started because an
	// instance of theirs could not be stopped.
	blocked map[string]bool
	in      inUse
	failed  []*StepError
}

func (w *work) look(ctx context.Context, status *runtime.PodStatus) error {
	if status == nil {
		var err error
		if status, err = w.config.Statuses.PodStatus(ctx, w.pod.UID, nil); err != nil {
			return fmt.Errorf("syncpod: pod %s/%s: %w", w.pod.Namespace, w.pod.Name, err)
		}
	}
	w.memory.see(status)
	w.record(ctx, w.pod.UID, w.memory)
	w.status = w.complete(status)
	return nil
}

func (w *work) report(ctx context.Context, failed []*StepError) error {
	return w.reportStatus(ctx, w.pod, w.status, failed)
}

func (s *Syncer) reportStatus(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus, failed []*StepError) error {
	if s.config.Status == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := s.config.Status.ReportStatus(ctx, pod, s.known.of(pod.UID).withSeen(status), failed); err != nil {
		return fmt.Errorf("report the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// decide makes the plan. That all containers are to restart is remembered until
// all of them have been removed (KEP-5532).
func (w *work) decide() actions.Plan {
	in := actions.Input{Pod: w.pod, Status: w.status}
	if w.config.Probes != nil {
		in.Probes = w.config.Probes.ProbeResults(w.pod.UID)
	}
	_, requested := actions.RestartAllRequested(w.pod, w.status)
	w.memory.restartAll = w.memory.restartAll || requested
	in.RestartAll = w.memory.restartAll
	plan := actions.Compute(in)
	if in.RestartAll && len(plan.Reset) == 0 {
		w.memory.restartAll, in.RestartAll = false, false
		plan = actions.Compute(in)
	}
	plan.Start = slices.DeleteFunc(plan.Start, w.hasHadItsRun)
	return plan
}

func (w *work) result() Result {
	r := Result{Plan: w.plan, Over: w.plan.Ends() && len(w.failed) == 0, Failed: w.failed}
	for _, f := range w.failed {
		if !f.RetryAt.IsZero() && (r.NextTry.IsZero() || f.RetryAt.Before(r.NextTry)) {
			r.NextTry = f.RetryAt
		}
	}
	return r
}

// lastFailed returns what was reported last to keep containers from running.
func (m *memory) lastFailed() []*StepError {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// setFailed notes what keeps containers from running, and reports whether that
// is news.
func (m *memory) setFailed(failed []*StepError) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news = len(failed)+len(m.failed) > 0
	m.failed = failed
	return news
}

// see keeps of a status what the runtime may lose: the highest attempts, and the
// exited containers, whose exit codes are to be reported (kubernetes #104107), of
// each name the current one.
func (m *memory) see(status *runtime.PodStatus) {
	if status == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetInstances(status)
	for i := range status.Containers {
		c := &status.Containers[i]
		m.attempts[c.Name] = max(m.attempts[c.Name], next(c.Attempt))
		if c.State == runtime.ContainerRunning || c.State == runtime.ContainerExited {
			m.ran[c.Name] = true
		}
		if status.Latest(c.Name) != c {
			continue
		}
		for id, old := range m.seen {
			if old.Name == c.Name {
				delete(m.seen, id)
			}
		}
		if c.State == runtime.ContainerExited {
			m.seen[c.ID] = *c
		}
	}
}

// forgetInstances drops what is noted of instances that are gone. It must be
// called with mu held.
func (m *memory) forgetInstances(status *runtime.PodStatus) {
	there := map[string]bool{}
	for i := range status.Containers {
		there[status.Containers[i].ID.ID] = true
	}
	for _, set := range []map[string]bool{m.unhooked, m.signalled, m.preStopped, m.preStopEnded} {
		maps.DeleteFunc(set, func(id string, _ bool) bool { return !there[id] })
	}
	maps.DeleteFunc(m.resources, func(id string, _ runtime.ContainerResources) bool { return !there[id] })
}

// withSeen returns a status with the exited containers that were seen and are
// gone: those that no newer instance has followed.
func (m *memory) withSeen(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lost []runtime.ContainerStatus
	for _, c := range m.seen {
		if status.Latest(c.Name) == nil {
			lost = append(lost, c)
		}
	}
	if len(lost) == 0 || status == nil {
		return status
	}
	sortByName(lost)
	full := *status
	full.Containers = append(append([]runtime.ContainerStatus{}, status.Containers...), lost...)
	return &full
}

// unsee drops the exit of an instance that was removed so that all starts over.
func (m *memory) unsee(id runtime.ContainerID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, id)
}

// complete adds to a status what the runtime has lost, or does not tell.
func (w *work) complete(status *runtime.PodStatus) *runtime.PodStatus {
	full := w.memory.withSeen(status)
	if full == nil || w.config.Updater == nil {
		return full
	}
	return w.memory.withResources(full)
}
