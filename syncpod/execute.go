package syncpod

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// carryOut carries out the plan in its order. If a step fails, only the steps that depend on it are
// skipped.
func (w syncing) carryOut(ctx context.Context) {
	if !w.plan.KillPod {
		w.memory.do(func(p *memory.Pod) { p.Kills.End(clearing(w).removes) }) // kills that have failed and are no longer in the plan
	} else if !clearing(w).killWholePod(ctx) {
		return
	}
	clearing(w).clearAway(ctx)
	if w.plan.Sandbox.Hold.Holds() {
		w.fail(w.held.sandbox)
		return
	}
	if len(w.plan.Start) == 0 && !w.plan.Sandbox.Create {
		lowering(w).updateCgroup(ctx, lowering(w).changesContainers())
	} else if !sandboxing(w).useSandbox(ctx) {
		return
	}
	starting(w).finishHooks(ctx)
	starting(w).startAll(ctx)
	resizing(w).resizeAll(ctx)
	lowering(w).lowerCgroup(ctx)
}

// errors joins the errors of failed steps. It omits steps that only back off.
func (o *outcome) errors() error {
	var all stepErrors
	for _, f := range o.failed {
		if !f.Waits {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// fail notes a failed step.
func (o *outcome) fail(e *StepError) { o.failed = append(o.failed, e) }

// killWholePod stops all containers and sandboxes of the pod. Unless that succeeds, no new sandbox is
// created, because containers of the old one may keep running without it (containerd #11029).
func (w clearing) killWholePod(ctx context.Context) bool {
	if message := w.plan.SandboxMessage(); message != "" {
		w.eventf(podref.Pod(w.pod), v1.EventTypeNormal, EventSandboxChanged, "%s", message)
	}
	return w.stopAll(ctx, w.plan.KillReason.String())
}

// stopAll stops all containers and sandboxes of the pod, within its grace period.
func (w *work) stopAll(ctx context.Context, why string) bool {
	w.log(w.pod).Info("stopping pod", "reason", why)
	deadline := w.memory.killBy(memory.AllOfPod, lifecycle.PodGrace(w.pod, nil))
	err := w.syncer.stopper.KillPod(ctx, lifecycle.Pod{Spec: w.pod, Status: w.status, Memory: w.syncer.stopMemory(w.memory), Deadline: deadline})
	if err == nil {
		w.memory.do(func(p *memory.Pod) { p.Kills.End(func(string) bool { return false }) })
	} else {
		w.eventf(podref.Pod(w.pod), v1.EventTypeWarning, EventFailedKillPod, "error killing pod: %s", withoutIDs(err, w.idNames()...))
		w.fail(&StepError{Step: stepKill, Reason: errKillPodSandbox, Err: err})
	}
	return err == nil
}

// clearing stops and removes the instances that the plan names.
type clearing struct{ *work }

// removal is the stop or the removal of one instance.
type removal struct {
	ref     actions.ContainerRef
	id      runtime.ContainerID
	step    Step
	why     actions.Reason
	restart bool
	remove  bool
}

// clearAway kills, clears and resets, all at once (kubernetes #102411).
func (w clearing) clearAway(ctx context.Context) {
	first, last := w.removals()
	w.removeAll(ctx, first)
	if len(w.unstopped) == 0 {
		w.removeAll(ctx, last)
	}
}

// removals returns the stops and removals of the plan: in last those that must come last, in first all
// others.
func (w clearing) removals() (first, last []removal) {
	for _, k := range w.plan.Kill {
		first = append(first, removal{ref: k.Container, id: k.ID, step: stepKill, why: k.Reason, restart: k.Restart})
	}
	for _, c := range w.plan.Clear {
		first = append(first, removal{ref: c.Container, id: c.ID, step: stepClear, why: c.Reason, remove: true})
	}
	for _, r := range w.plan.Reset {
		step := removal{ref: r.Container, id: r.ID, step: stepReset, remove: true}
		if r.Last {
			last = append(last, step)
		} else {
			first = append(first, step)
		}
	}
	return first, last
}

// removes reports whether the plan stops or removes an instance.
func (w clearing) removes(id string) bool {
	first, last := w.removals()
	return slices.ContainsFunc(append(first, last...), func(r removal) bool { return r.id.ID == id })
}

func (w clearing) removeAll(ctx context.Context, all []removal) {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, r := range all {
		group.Go(func() { errs[i] = w.memory.secrets.redactError(w.removeOne(ctx, r)) })
	}
	group.Wait()
	for i, r := range all {
		if errs[i] == nil {
			continue
		}
		if ctx.Err() == nil {
			w.eventf(podref.Container(w.pod, r.ref), v1.EventTypeWarning, EventFailedKillPod, "error killing container %s: %s", r.ref.Name, withoutIDs(errs[i], w.idNames()...))
		}
		w.fail(&StepError{Step: r.step, Reason: errKillContainer, Container: r.ref, Err: errs[i]})
		put(&w.unstopped, r.ref.Name, true)
	}
}

// instance returns the observed status of an instance.
func (o *observedPod) instance(id runtime.ContainerID) *runtime.ContainerStatus {
	at := slices.IndexFunc(o.status.Containers, func(c runtime.ContainerStatus) bool { return c.ID == id })
	if at < 0 {
		return nil
	}
	return &o.status.Containers[at]
}

func (w clearing) removeOne(ctx context.Context, r removal) error {
	c := w.instance(r.id)
	if r.step == stepClear && c.State == runtime.ContainerCreated && w.memory.Mark(c.ID.ID, memory.StartRequested) {
		w.record(ctx) // if it is stopped and cannot be removed, it has exited, and has not run
	}
	if c.Live() && !w.plan.KillPod { // KillPod has stopped all containers
		err := w.syncer.stopper.KillContainer(ctx, lifecycle.Container{
			Pod: w.pod, Ref: &r.ref, Status: c, Memory: w.syncer.stopMemory(w.memory), IPs: w.podIPs(),
			Deadline: w.memory.killBy(c.ID.ID, lifecycle.ContainerGrace(w.pod, r.ref.Spec(w.pod), r.why)), Message: actions.KillMessage(r.ref.Name, r.why, r.restart),
		})
		if err != nil {
			return err
		}
	}
	if !r.remove {
		return nil
	}
	if err := w.syncer.stopper.Remove(ctx, r.id.ID); err != nil {
		return err
	}
	if r.step == stepReset { // a cleared instance may have run after all
		w.memory.do(func(p *memory.Pod) { p.Containers.ForgetRun(c) })
	}
	return nil
}
