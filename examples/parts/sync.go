package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/memory/keeper"
	"github.com/podsync/podsync/syncpod/status"
	"github.com/podsync/podsync/syncpod/store"
)

// begin notes that work on a pod is in flight, so that the watcher leaves the reading of statuses to it.
func (a *agent) begin(uid types.UID) (m *keeper.Pod, end func()) {
	state := a.state(uid)
	state.busy.Add(1)
	return a.memory.Pod(uid), func() { state.busy.Add(-1) }
}

// SyncPod inspects, gathers the facts, decides, carries the plan out and reports.
func (a *agent) SyncPod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) (podworkers.Result, error) {
	m, end := a.begin(w.UID)
	defer end()
	a.probes.Observe(w.Pod, seen, false)
	seen, err := a.inspect(ctx, m, w.Pod, seen)
	if err != nil {
		return podworkers.Result{}, err
	}
	in, next := a.facts(m, w.Pod, seen)
	plan := actions.Compute(in)
	err = a.publish(ctx, w.Pod, seen, false, false)
	if plan.TerminatesPod() {
		return podworkers.Result{Terminal: true}, err
	}
	if !plan.NoOp() {
		with, retry, failed := a.apply(ctx, m, w.Pod, seen, plan)
		next, err = memory.Earliest(next, retry), errors.Join(err, failed, a.publish(ctx, w.Pod, with, false, false))
	}
	return podworkers.Result{Next: next}, err
}

// inspect returns the status of a pod with what the runtime has lost. It reads it if there is none, or if a sandbox of a lost
// answer may have appeared.
func (a *agent) inspect(ctx context.Context, m *keeper.Pod, pod *v1.Pod, seen *runtime.PodStatus) (_ *runtime.PodStatus, err error) {
	if a.sandboxes.Unresolved(pod.UID) {
		var keep string
		m.Do(func(p *memory.Pod) { keep = p.Sandbox.InUse(seen) })
		if err := a.sandboxes.Resolve(ctx, pod.UID, keep); err != nil {
			return nil, err
		}
		seen = nil
	}
	if seen == nil {
		if seen, err = a.reader.PodStatus(ctx, pod.UID, nil); err != nil {
			return nil, err
		}
	}
	return m.See(ctx, pod, seen), nil
}

// facts returns what the decision depends on, and when a wait ends.
func (a *agent) facts(m *keeper.Pod, pod *v1.Pod, seen *runtime.PodStatus) (in actions.Input, next time.Time) {
	now, last := time.Now(), a.state(pod.UID).status()
	in = m.Facts(pod, seen, a.probes.ProbeResults(pod.UID), now)
	next = in.SandboxHold.Until
	for _, hold := range in.StartHolds {
		next = memory.Earliest(next, hold.Until)
	}
	if limit := pod.Spec.ActiveDeadlineSeconds; limit != nil && last != nil && last.StartTime != nil {
		until := last.StartTime.Add(time.Duration(*limit) * time.Second)
		if next = memory.Earliest(next, until); !now.Before(until) {
			m.Do(func(p *memory.Pod) {
				p.Evict(&status.Problem{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}, false)
			})
			in.End = actions.PodEvicted
		}
	}
	if pod.DeletionTimestamp != nil {
		in.End = actions.PodDeleted
	} else if runtime.IsTerminal(pod.Status.Phase) || last != nil && runtime.IsTerminal(last.Phase) {
		in.End = actions.PodEnded
	}
	return in, next
}

// apply carries the plan out in its order. It returns the status with the new sandbox, and when to try again.
func (a *agent) apply(ctx context.Context, m *keeper.Pod, pod *v1.Pod, seen *runtime.PodStatus, plan actions.Plan) (_ *runtime.PodStatus, retry time.Time, err error) {
	m.Do(func(p *memory.Pod) { p.Containers.NoteRestarts(plan.Restarts(pod, seen), seen) })
	if plan.Hold.Holds() {
		return seen, retry, nil
	}
	if plan.KillPod {
		deadline := time.Now().Add(lifecycle.PodGrace(pod))
		m.Do(func(p *memory.Pod) { deadline = p.Kills.Begin(memory.AllOfPod, deadline) })
		if err := a.stopper.KillPod(ctx, lifecycle.Pod{Spec: pod, Status: seen, Memory: m, Deadline: deadline}); err != nil {
			return seen, retry, err
		}
	}
	unstopped := a.stopper.Clear(ctx, lifecycle.Clearing{Pod: pod, Status: seen, Plan: plan, Memory: m, IPs: seen.IPs()})
	var errs []error
	for _, u := range unstopped {
		errs = append(errs, u)
	}
	if plan.Sandbox.Hold.Holds() || !plan.Sandbox.Create && len(plan.Start)+len(plan.PostStart) == 0 {
		return seen, retry, errors.Join(errs...)
	}
	box, with, err := a.useSandbox(ctx, m, pod, seen, plan)
	if err != nil {
		retry = m.Failed(ctx, nil, status.Problem{Reason: "CreatePodSandboxError", Message: err.Error()}, err, time.Now())
		return seen, retry, errors.Join(append(errs, err)...)
	}
	given := start.Pod{Spec: pod, Status: with, Sandbox: box, Memory: m}
	for _, step := range plan.PostStart {
		if failed := a.starter.PostStart(ctx, given, step); failed != nil {
			errs = append(errs, failed)
		}
	}
	for started := range a.starter.StartAll(ctx, given, m.Startable(pod, with, plan.Start, unstopped, time.Now())) {
		c := started.Container.Spec(pod)
		if started.Err == nil {
			m.Succeeded(c)
			continue
		}
		until := started.Err.RetryAt // of an image
		if failed := m.Failed(ctx, c, status.Problem{Reason: status.Reason(started.Err.Reason), Message: started.Err.Err.Error()}, started.Err, time.Now()); until.IsZero() {
			until = failed
		}
		retry, errs = memory.Earliest(retry, until), append(errs, started.Err)
	}
	return with, retry, errors.Join(errs...)
}

// useSandbox gets the pod its sandbox, the one it has or a new one.
func (a *agent) useSandbox(ctx context.Context, m *keeper.Pod, pod *v1.Pod, seen *runtime.PodStatus, plan actions.Plan) (box start.Sandbox, _ *runtime.PodStatus, err error) {
	box = start.Sandbox{ID: plan.Sandbox.ID, IPs: seen.IPs()}
	box.Config, err = sandbox.GeneratePodSandboxConfig(sandbox.Input{Pod: pod, Attempt: plan.Sandbox.Attempt, LogsRoot: a.logs, Labels: cri.Owner{}.Mark(nil)})
	if err != nil || !plan.Sandbox.Create {
		return box, seen, err
	}
	created, err := a.sandboxes.Create(ctx, box.Config, "")
	if err != nil {
		return box, seen, err
	}
	box.ID, box.Config.Metadata.Attempt = created.ID, created.Attempt
	m.Do(func(p *memory.Pod) { p.Sandbox.SetMade(created.ID) })
	sb, err := a.reader.SandboxStatus(ctx, created.ID)
	if err != nil {
		return box, seen, err
	}
	with := *seen
	with.Sandboxes = append([]runtime.SandboxStatus{sb}, with.Sandboxes...)
	box.IPs = with.IPs()
	m.Succeeded(nil)
	return box, &with, nil
}

// publish computes the status, stores it and reports it.
func (a *agent) publish(ctx context.Context, pod *v1.Pod, seen *runtime.PodStatus, terminal, ended bool) error {
	p := a.state(pod.UID)
	p.lock.Lock()
	defer p.lock.Unlock()
	next := a.memory.Pod(pod.UID).Status(status.Input{
		Pod: pod, Status: seen, Previous: p.last, Terminal: terminal, Ended: ended, Now: time.Now(), Probes: a.probes.ProbeResults(pod.UID),
	})
	p.last = &next
	if err := a.store.SetStatus(ctx, store.Status{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: next}); err != nil {
		return err
	}
	a.report(pod.UID, next)
	return nil
}

// SyncTerminatingPod stops a pod by its deadline.
func (a *agent) SyncTerminatingPod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) error {
	a.probes.Observe(w.Pod, seen, true)
	return a.terminate(ctx, w, seen, w.Deadline)
}

// SyncTerminatingRuntimePod stops a pod whose spec is unknown.
func (a *agent) SyncTerminatingRuntimePod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) error {
	return a.terminate(ctx, w, seen, time.Now().Add(lifecycle.PodGrace(nil)))
}

func (a *agent) terminate(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus, deadline time.Time) (err error) {
	m, end := a.begin(w.UID)
	defer end()
	m.Do(func(p *memory.Pod) { deadline = p.Hasten(deadline) })
	inspect := func(ctx context.Context) (*runtime.PodStatus, error) {
		now, err := a.reader.PodStatus(ctx, w.UID, seen)
		if err == nil {
			seen = now
			m.See(ctx, w.Pod, now)
		}
		return now, err
	}
	if seen == nil {
		if _, err = inspect(ctx); err != nil {
			return err
		}
	}
	alive, err := a.stopper.TerminatePod(ctx, lifecycle.Pod{Spec: w.Pod, Status: seen, Memory: m, Deadline: deadline}, inspect)
	if err == nil && alive {
		err = fmt.Errorf("pod %s: containers still run", w.UID)
	}
	if err == nil {
		a.desired.Stopped(w.UID)
	}
	if w.Pod != nil {
		err = errors.Join(err, a.publish(ctx, w.Pod, seen, !seen.Live(), !seen.Live()))
	}
	return err
}

// SyncTerminatedPod reports a pod a last time.
func (a *agent) SyncTerminatedPod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) error {
	a.probes.Forget(w.UID)
	return a.publish(ctx, w.Pod, seen, true, true)
}

// RemovePod removes a pod from the node, its records last.
func (a *agent) RemovePod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) error {
	if seen != nil {
		for _, sb := range seen.Sandboxes {
			if err := a.sandboxes.Remove(ctx, sb.ID); err != nil {
				return err
			}
		}
	}
	a.sandboxes.Forget(w.UID)
	a.images.Forget(w.UID)
	a.probes.Forget(w.UID)
	if err := errors.Join(a.store.Delete(ctx, w.UID), a.memory.Forget(w.UID)); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.pods, w.UID)
	a.mu.Unlock()
	a.desired.Forgotten(w.UID)
	return nil
}
