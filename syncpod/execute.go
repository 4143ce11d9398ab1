package syncpod

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// carryOut carries out the plan in its order. If a step fails, only the steps that depend on it are
// skipped.
func (w syncing) carryOut(ctx context.Context) {
	if w.plan.KillPod && !w.killWholePod(ctx) {
		return
	}
	w.clearAway(ctx)
	if w.plan.Sandbox.Hold.Holds() {
		w.fail(w.held.sandbox)
		return
	}
	if len(w.plan.Start) == 0 && !w.plan.Sandbox.Create {
		lowering(w).updateCgroup(ctx, lowering(w).changesContainers())
	} else if w.sandbox.usable = sandboxing(w).useSandbox(ctx); !w.sandbox.usable {
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
func (w *work) killWholePod(ctx context.Context) bool {
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
	err = w.memory.secrets.redactErrorOfPod(err, w.pod)
	if err == nil {
		w.memory.do(func(p *memory.Pod) { p.Kills.End(func(string) bool { return false }) })
	} else {
		w.eventf(podref.Pod(w.pod), v1.EventTypeWarning, EventFailedKillPod, "error killing pod: %s", withoutIDs(err, w.idNames()...))
		w.fail(&StepError{Step: stepKill, Reason: errKillPodSandbox, Err: err})
	}
	return err == nil
}

// clearAway stops and removes the instances that the plan names. A stop that takes long stays in flight, and its container
// does not start before a later plan.
func (w *work) clearAway(ctx context.Context) {
	c := lifecycle.Clearing{Pod: w.pod, Status: w.status, Plan: w.plan, Memory: w.syncer.stopMemory(w.memory), IPs: w.podIPs(), InFlight: w.flights.stopping()}
	if len(w.plan.Kill)+len(w.plan.Clear) == 0 || startsOver(w.plan) {
		w.noteUncleared(ctx, w.syncer.stopper.Clear(ctx, c))
		return
	}
	all := stopsOf(w.plan)
	for _, st := range all {
		c.InFlight = append(c.InFlight, st.ids()...)
	}
	inFlight := w.flights.ctx
	for _, st := range all {
		own := c
		own.Plan = st.plan
		w.flights.stop(st, func() []*lifecycle.Uncleared { return w.syncer.stopper.Clear(inFlight, own) })
	}
	for until := time.Now().Add(patience); w.flights.anyOf(all) && !w.flights.wait(ctx, nil, until) && ctx.Err() == nil; {
		w.collectStops(ctx)
	}
	if ctx.Err() != nil {
		w.flights.awaitStops()
	}
	w.collectStops(ctx)
	for _, name := range w.flights.stopNames() {
		put(&w.unstopped, name, true)
	}
}

// collectStops removes the stops that have ended from the flights, and notes those that have failed. It returns the containers
// that were stopped.
func (w *work) collectStops(ctx context.Context) (stopped []string) {
	for _, st := range w.flights.takeStops() {
		if w.noteUncleared(ctx, st.failed); len(st.failed) == 0 {
			stopped = append(stopped, st.name)
		}
	}
	return stopped
}

// noteUncleared notes the instances that could not be stopped or removed.
func (w *work) noteUncleared(ctx context.Context, failed []*lifecycle.Uncleared) {
	for _, u := range failed {
		err := w.memory.secrets.redactErrorOf(u.Err, slices.Values([]*v1.Container{u.Container.Spec(w.pod)}))
		if ctx.Err() == nil {
			w.eventf(podref.Container(w.pod, u.Container), v1.EventTypeWarning, EventFailedKillPod, "error killing container %s: %s", u.Container.Name, withoutIDs(err, w.idNames()...))
		}
		w.fail(&StepError{Step: Step(u.Step), Reason: errKillContainer, Container: u.Container, Err: err})
		put(&w.unstopped, u.Container.Name, true)
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
