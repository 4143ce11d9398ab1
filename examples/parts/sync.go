package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/status"
)

// A pass is one SyncPod.
type pass struct {
	*agent
	*podState
	pod     *v1.Pod
	status  *runtime.PodStatus
	plan    actions.Plan
	sandbox *runtimeapi.PodSandboxConfig
	id      string // of the sandbox
	ips     []string
	next    time.Time // when a wait ends
}

// SyncPod inspects, gathers the facts, decides, carries the plan out and reports.
func (a *agent) SyncPod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) (podworkers.Result, error) {
	p := &pass{agent: a, podState: a.state(w.UID), pod: w.Pod}
	p.busy.Add(1)
	defer p.busy.Add(-1)
	a.probes.Observe(w.Pod, seen, false)
	p.do(func(m *memory.Pod) { m.Containers.NoteRunOnce(w.Pod) })
	if a.sandboxes.Unresolved(w.UID) { // a sandbox of a lost answer may have appeared
		var keep string
		p.do(func(m *memory.Pod) { keep = m.Sandbox.InUse(seen) })
		if err := a.sandboxes.Resolve(ctx, w.UID, keep); err != nil {
			return podworkers.Result{}, err
		}
		seen = nil
	}
	if seen == nil {
		var err error
		if seen, err = a.reader.PodStatus(ctx, w.UID, nil); err != nil {
			return podworkers.Result{}, err
		}
	}
	p.status = p.see(seen)
	p.plan = actions.Compute(p.facts(time.Now()))
	err := p.publish(ctx, w.Pod, p.status, false, false)
	if p.plan.TerminatesPod() {
		return podworkers.Result{Terminal: true}, err
	}
	if !p.plan.NoOp() {
		err = errors.Join(err, p.apply(ctx), p.publish(ctx, w.Pod, p.status, false, false))
	}
	return podworkers.Result{Next: p.next}, err
}

// facts returns what the decision depends on.
func (p *pass) facts(now time.Time) actions.Input {
	_, restartAll := actions.RestartAllRequested(p.pod, p.status)
	in := actions.Input{
		Pod: p.pod, Status: p.status, Probes: p.probes.ProbeResults(p.uid), StatusComplete: true,
		StartHolds: map[string]actions.Hold{},
	}
	p.do(func(m *memory.Pod) {
		in.RestartAll = m.RestartsAll(restartAll, len(p.status.Containers) == 0)
		in.PostStartPending = m.Instances.MarkedIn(p.status, memory.PostStartPending)
		if failed, until, wait := p.failures.Held(memory.Key{}, now); wait {
			in.SandboxHold = p.hold(actions.FailureBackOff, until, failed.Message)
		}
		for c := range runtime.AllContainers(p.pod) {
			if failed, until, wait := p.failures.Held(memory.KeyOf(c), now); wait {
				in.StartHolds[c.Name] = p.hold(actions.FailureBackOff, until, failed.Message)
			} else if last := p.status.Latest(c.Name); last != nil && last.State == runtime.ContainerExited {
				if until, wait := m.Crashes.Preview(c, last.ID, last.FinishedAt, now); wait {
					in.StartHolds[c.Name] = p.hold(actions.CrashBackOff, until, "back-off restarting failed container="+c.Name)
				}
			}
		}
	})
	if limit := p.pod.Spec.ActiveDeadlineSeconds; limit != nil && p.last != nil && p.last.StartTime != nil {
		until := p.last.StartTime.Add(time.Duration(*limit) * time.Second)
		if p.wait(until); !now.Before(until) {
			p.do(func(m *memory.Pod) {
				m.Evict(&status.Problem{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}, false)
			})
			in.End = actions.PodEvicted
		}
	}
	if p.pod.DeletionTimestamp != nil {
		in.End = actions.PodDeleted
	} else if runtime.IsTerminal(p.pod.Status.Phase) || p.last != nil && runtime.IsTerminal(p.last.Phase) {
		in.End = actions.PodEnded
	}
	return in
}

func (p *pass) hold(why actions.Reason, until time.Time, message string) actions.Hold {
	p.wait(until)
	return actions.Hold{Reason: why, Until: until, Message: message}
}

// wait makes the next SyncPod come at that time, if no other one is earlier.
func (p *pass) wait(until time.Time) { p.next = memory.Earliest(p.next, until) }

// apply carries the plan out in its order.
func (p *pass) apply(ctx context.Context) error {
	if p.plan.Hold.Holds() {
		return nil
	}
	if p.plan.KillPod {
		err := p.stopper.KillPod(ctx, lifecycle.Pod{Spec: p.pod, Status: p.status, Memory: p.podState, Deadline: p.killBy(memory.AllOfPod, lifecycle.PodGrace(p.pod, nil))})
		if err != nil {
			return err
		}
	}
	unstopped := p.clear(ctx)
	if p.plan.Sandbox.Hold.Holds() || len(unstopped) > 0 && len(p.plan.Reset) > 0 {
		return joined(unstopped)
	}
	if p.plan.Sandbox.Create || len(p.plan.Start)+len(p.plan.PostStart) > 0 {
		if err := p.useSandbox(ctx); err != nil {
			return p.failed(ctx, memory.Key{}, "", status.Problem{Reason: "CreatePodSandboxError", Message: err.Error()}, err)
		}
	}
	errs := []error{joined(unstopped)}
	for _, step := range p.plan.PostStart {
		errs = append(errs, p.postStart(ctx, step.Container, step.ID))
	}
	return errors.Join(append(errs, p.startAll(ctx, unstopped))...)
}

// killBy returns the deadline of a stop: however often the stop is repeated, its first deadline counts.
func (p *pass) killBy(what string, grace time.Duration) (deadline time.Time) {
	p.do(func(m *memory.Pod) { deadline = m.Kills.Begin(what, time.Now().Add(grace)) })
	return deadline
}

// clear stops and removes the instances that the plan names, all at once. It returns the errors by container.
func (p *pass) clear(ctx context.Context) map[string]error {
	type step struct {
		ref      actions.ContainerRef
		id       runtime.ContainerID
		why      actions.Reason
		restart  bool
		remove   bool
		startNew bool
	}
	var steps []step
	for _, k := range p.plan.Kill {
		steps = append(steps, step{k.Container, k.ID, k.Reason, k.Restart, false, false})
	}
	for _, c := range p.plan.Clear {
		steps = append(steps, step{c.Container, c.ID, c.Reason, false, true, false})
	}
	for _, r := range p.plan.Reset {
		steps = append(steps, step{r.Container, r.ID, actions.ReasonNone, false, true, true})
	}
	var group sync.WaitGroup
	errs := make([]error, len(steps))
	for i, s := range steps {
		group.Go(func() {
			c := p.instance(s.id)
			if c.State == runtime.ContainerCreated {
				p.Mark(s.id.ID, memory.StartRequested)
			}
			if c.Live() && !p.plan.KillPod {
				errs[i] = p.stopper.KillContainer(ctx, lifecycle.Container{
					Pod: p.pod, Ref: &s.ref, Status: c, Memory: p.podState, IPs: p.status.IPs(),
					Deadline: p.killBy(s.id.ID, lifecycle.ContainerGrace(p.pod, s.ref.Spec(p.pod), s.why)), Message: actions.KillMessage(s.ref.Name, s.why, s.restart),
				})
			}
			if errs[i] == nil && s.remove {
				errs[i] = p.stopper.Remove(ctx, s.id.ID)
			}
			if errs[i] == nil && s.startNew {
				p.do(func(m *memory.Pod) { m.Containers.ForgetRun(c) })
			}
		})
	}
	group.Wait()
	failed := map[string]error{}
	for i, err := range errs {
		if err != nil {
			failed[steps[i].ref.Name] = err
		}
	}
	return failed
}

func joined(errs map[string]error) error {
	var all []error
	for _, err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (p *pass) instance(id runtime.ContainerID) *runtime.ContainerStatus {
	for i := range p.status.Containers {
		if p.status.Containers[i].ID == id {
			return &p.status.Containers[i]
		}
	}
	return nil
}

// useSandbox gets the pod its sandbox, the one it has or a new one.
func (p *pass) useSandbox(ctx context.Context) (err error) {
	p.sandbox, err = sandbox.GeneratePodSandboxConfig(sandbox.Input{Pod: p.pod, Attempt: p.plan.Sandbox.Attempt, LogsRoot: p.logs, Labels: cri.Owner{}.Mark(nil)})
	if err != nil {
		return err
	}
	p.id, p.ips = p.plan.Sandbox.ID, p.status.IPs()
	if !p.plan.Sandbox.Create {
		return nil
	}
	created, err := p.sandboxes.Create(ctx, p.sandbox, "")
	if err != nil {
		return err
	}
	p.id, p.sandbox.Metadata.Attempt = created.ID, created.Attempt
	p.do(func(m *memory.Pod) { m.Sandbox.SetMade(created.ID) })
	sb, err := p.reader.SandboxStatus(ctx, created.ID)
	if err != nil {
		return err
	}
	with := *p.status
	with.Sandboxes = append([]runtime.SandboxStatus{sb}, with.Sandboxes...)
	p.status, p.ips = &with, with.IPs()
	p.failures.Succeeded(memory.Key{})
	return nil
}

// failed notes a failure, and delays the next try unless the agent or the runtime is its cause.
func (p *pass) failed(ctx context.Context, key memory.Key, container string, why status.Problem, err error) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if container != "" {
		p.problems[container] = why
	}
	if ctx.Err() == nil && !errors.Is(err, cri.ErrCanceled) && !(errors.Is(err, cri.ErrUnavailable) && p.failures.Excuse(key)) {
		p.wait(p.failures.Failed(key, why, time.Now()))
	}
	return err
}

// SyncTerminatingPod stops a pod by its deadline.
func (a *agent) SyncTerminatingPod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) error {
	a.probes.Observe(w.Pod, seen, true)
	return a.terminate(ctx, w, seen, lifecycle.PodGrace(w.Pod, w.GracePeriodSeconds))
}

// SyncTerminatingRuntimePod stops a pod whose spec is unknown.
func (a *agent) SyncTerminatingRuntimePod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) error {
	return a.terminate(ctx, w, seen, lifecycle.PodGrace(nil, nil))
}

func (a *agent) terminate(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus, grace time.Duration) error {
	p := a.state(w.UID)
	p.busy.Add(1)
	defer p.busy.Add(-1)
	deadline := w.Deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(grace)
	}
	p.do(func(m *memory.Pod) { deadline = m.Hasten(deadline) })
	inspect := func(ctx context.Context) (*runtime.PodStatus, error) {
		status, err := a.reader.PodStatus(ctx, w.UID, seen)
		if err == nil {
			seen = status
			p.do(func(m *memory.Pod) { m.See(status) })
		}
		return status, err
	}
	var err error
	if seen == nil {
		if _, err = inspect(ctx); err != nil {
			return err
		}
	}
	alive, err := a.stopper.TerminatePod(ctx, lifecycle.Pod{Spec: w.Pod, Status: seen, Memory: p, Deadline: deadline}, inspect)
	if err == nil && alive {
		err = fmt.Errorf("pod %s: containers still run", w.UID)
	}
	if err == nil {
		a.mu.Lock()
		p.stoppedAt = time.Now()
		a.mu.Unlock()
	}
	if w.Pod != nil {
		err = errors.Join(err, p.publish(ctx, w.Pod, seen, !seen.Live(), !seen.Live()))
	}
	return err
}

// SyncTerminatedPod reports a pod a last time.
func (a *agent) SyncTerminatedPod(ctx context.Context, w podworkers.Work, seen *runtime.PodStatus) error {
	a.probes.Forget(w.UID)
	defer a.look() // the workers remove the pod if it is not desired any more
	return a.state(w.UID).publish(ctx, w.Pod, seen, true, true)
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
	return a.forget(ctx, w.UID)
}
