package syncpod

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// apply carries a plan out in its order, as far as possible. If a step fails, only the steps that depend on it are left out. A
// pod that must end is left to SyncTerminatingPod.
func (s *Syncer) apply(ctx context.Context, d *decision, done outcome, inFlight *flights) outcome {
	if d.plan.TerminatesPod() {
		return done
	}
	if d.memory.callOff(ctx) {
		d.memory.Record(ctx)
	}
	s.noteRestarts(ctx, d, inFlight)
	if d.plan.Hold.Holds() {
		done.failed = s.applyHold(ctx, d)
		return done
	}

	if d.plan.KillPod {
		if failed := s.killWholePod(ctx, d); failed != nil {
			done.fail(failed)
			return done
		}
	}
	done.failed, done.unstopped = s.killAndClear(ctx, d, inFlight)
	if d.plan.Sandbox.Hold.Holds() {
		done.fail(d.facts.held.sandbox)
		return done
	}
	// A running container needs other resources than it has if it is resized, or could not be stopped in order to restart.
	changes := len(d.plan.Resize)+len(done.unstopped) > 0
	if len(d.plan.Start) == 0 && !d.plan.Sandbox.Create {
		var failed *StepError
		done.memoryInUse, failed = s.updateCgroup(ctx, d, changes)
		done.fail(failed)
	} else if done = s.useSandbox(ctx, d, done, changes); done.sandbox == nil {
		return done
	}
	s.finishHooks(d, done, inFlight)
	done = s.startAll(ctx, d, done, inFlight)
	done = s.resizeAll(ctx, d, done)
	done = s.moveAll(ctx, d, done)
	return s.lowerCgroup(ctx, d, done)
}

// noteRestarts records which instances are stopped in order to start their containers again, before they are stopped:
// the start may fail or wait, and the exit code does not show that it is due (kubernetes #109537).
func (s *Syncer) noteRestarts(ctx context.Context, d *decision, inFlight *flights) {
	restarts := append(d.plan.Restarts(d.pod, d.status), inFlight.restartingIDs()...)
	if d.memory.noteRestarts(restarts, d.status) {
		d.memory.Record(ctx)
	}
}

// applyHold carries out a blocked pod's plan. A block does not end the pod.
func (s *Syncer) applyHold(ctx context.Context, d *decision) (failed []*StepError) {
	blocked := d.facts.held.pod
	if blocked.Step == stepNetwork {
		s.warn(ctx, d.pod, EventNetworkNotReady, "network is not ready: %v", blocked.Err)
	}
	failed = []*StepError{blocked}
	if d.plan.KillPod {
		if f := s.stopAll(ctx, d); f != nil {
			failed = append(failed, f)
		}
	}
	return failed
}

// killWholePod stops all containers and sandboxes of the pod. Unless that succeeds, no new sandbox is
// created, because containers of the old one may keep running without it (containerd #11029).
func (s *Syncer) killWholePod(ctx context.Context, d *decision) *StepError {
	if message := d.plan.SandboxMessage(); message != "" {
		s.eventf(podref.Pod(d.pod), v1.EventTypeNormal, EventSandboxChanged, "%s", message)
	}
	return s.stopAll(ctx, d)
}

// stopAll stops all containers and sandboxes of the pod, within its grace period.
func (s *Syncer) stopAll(ctx context.Context, d *decision) *StepError {
	s.log(d.pod).Info("stopping pod", "reason", d.plan.KillReason.String())
	deadline := d.memory.killBy(memory.AllOfPod, lifecycle.PodGrace(d.pod))
	err := s.stopper.KillPod(ctx, lifecycle.Pod{Spec: d.pod, Status: d.status, Memory: d.memory, Deadline: deadline})
	err = d.memory.secrets.redactErrorOfPod(err, d.pod)
	if err != nil {
		s.eventf(podref.Pod(d.pod), v1.EventTypeWarning, EventFailedKillPod, "error killing pod: %s", withoutIDs(err, idNames(d.status)...))
		return &StepError{Step: stepKill, Reason: errKillPodSandbox, Err: err}
	}
	d.memory.killed()
	return nil
}

// killAndClear stops and removes the instances that the plan names. It returns the failures, and the containers that must not start.
// A stop that takes long stays in flight, and its container does not start before a later plan.
func (s *Syncer) killAndClear(ctx context.Context, d *decision, inFlight *flights) (failed []*StepError, unstopped []string) {
	c := lifecycle.Clearing{
		Pod: d.pod, Status: d.status, Plan: d.plan, Memory: d.memory, IPs: s.podIPs(d.pod, d.status), InFlight: inFlight.stoppingIDs(),
	}
	if len(d.plan.Kill)+len(d.plan.Clear) == 0 || endsFlights(d.plan) {
		return s.uncleared(ctx, d, s.stopper.Clear(ctx, c))
	}
	all := stopsOf(d.plan)
	for _, st := range all {
		c.InFlight = append(c.InFlight, st.ids()...)
	}
	for _, st := range all {
		own := c
		own.Plan = st.plan
		inFlight.stop(st, func() []*lifecycle.Uncleared { return s.stopper.Clear(inFlight.ctx, own) })
	}
	collect := func() {
		_, f, u := s.collectStops(ctx, d, inFlight)
		failed, unstopped = append(failed, f...), append(unstopped, u...)
	}
	// Stops that are quick end here; the others stay in flight.
	for until := time.Now().Add(shortStep); inFlight.anyOf(all) && !inFlight.wait(ctx, nil, until) && ctx.Err() == nil; {
		collect()
	}
	if ctx.Err() != nil {
		inFlight.awaitBegun()
	}
	collect()
	return failed, append(unstopped, inFlight.stopNames()...)
}

// collectStops removes the stops that have ended from the flights. It returns the containers that were stopped, the failures, and
// the containers that must not start because of them.
func (s *Syncer) collectStops(ctx context.Context, d *decision, inFlight *flights) (stopped []string, failed []*StepError, unstopped []string) {
	for _, st := range inFlight.takeStops() {
		f, u := s.uncleared(ctx, d, st.failed)
		if failed, unstopped = append(failed, f...), append(unstopped, u...); len(f) == 0 {
			stopped = append(stopped, st.name)
		}
	}
	return stopped, failed, unstopped
}

// uncleared returns the failures to stop or remove instances, and their containers.
func (s *Syncer) uncleared(ctx context.Context, d *decision, all []*lifecycle.Uncleared) (failed []*StepError, unstopped []string) {
	for _, u := range all {
		err := d.memory.secrets.redactErrorOf(u.Err, slices.Values([]*v1.Container{u.Container.Spec(d.pod)}))
		if ctx.Err() == nil {
			s.eventf(podref.Container(d.pod, u.Container), v1.EventTypeWarning, EventFailedKillPod, "error killing container %s: %s", u.Container.Name, withoutIDs(err, idNames(d.status)...))
		}
		failed = append(failed, &StepError{Step: Step(u.Step), Reason: errKillContainer, Container: u.Container, Err: err})
		unstopped = append(unstopped, u.Container.Name)
	}
	return failed, unstopped
}
