package syncpod

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/limiter"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container/env"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// Containers start before sandboxes are created: the pods closest to running come first.
const (
	sandboxPriority limiter.Priority = iota
	containerPriority
)

// newStarter returns the part that starts containers.
func (s *Syncer) newStarter() (*containerstart.Starter, error) {
	c := &s.config
	runner, err := containerstart.New(containerstart.Config{
		Runtime: c.Client, Disposer: s.stopper, Owner: c.Owner, CleanupTimeout: c.Limits.CleanupTimeout,
	})
	if err != nil {
		return nil, err
	}
	mounts := c.Parts.Mounts
	if mounts != nil {
		mounts = redactedMounts{mounts, &s.known}
	}
	return containerstart.NewStarter(containerstart.StarterConfig{
		Images: c.Parts.Images, Containers: runner, Hooks: c.Parts.Hooks, Stopper: s.stopper, Owner: c.Owner, RuntimeName: c.RuntimeName,
		Node: c.Node.Containers, Logs: c.Parts.Logs, Mounts: mounts, Devices: c.Extensions.Devices, Lifecycle: c.Extensions.Lifecycle,
		Slot:    func(ctx context.Context) (func(), error) { return s.pace.Take(ctx, containerPriority) },
		Running: s.linkLog, Observer: startObserver{c.Observer}, Events: c.Events, Log: c.Log,
	})
}

// startObserver is an [Observer] as package start uses it.
type startObserver struct{ Observer }

// PostStartEnded reports the end of a postStart handler.
func (o startObserver) PostStartEnded(pod *v1.Pod, container string, took time.Duration, err error) {
	o.HookEnded(pod, container, PostStart, took, err)
}

// starting starts the containers of a plan.
type starting struct{ *work }

// givenPod returns the pod as package start takes it.
func (w starting) givenPod() containerstart.Pod {
	return containerstart.Pod{
		Spec: w.pod, Status: w.status, Memory: startMemory{w.syncer.stopMemory(w.memory), &w.report.handling}, Environment: w.environment,
		Sandbox: containerstart.Sandbox{
			ID: w.sandbox.id, Config: w.sandbox.config, RuntimeHandler: w.sandbox.handler, IPs: w.sandbox.ips,
			UserNamespace: w.sandbox.input.UserNamespace, ExtraGroups: w.sandbox.input.ExtraGroups,
		},
		PullSecrets: func(ctx context.Context, image string) []v1.Secret {
			return w.sandbox.secrets.of(ctx, &w.observedPod, image)
		},
	}
}

// environment returns the variables of a container, and remembers the values of Secrets among them.
func (w starting) environment(ctx context.Context, in env.Input) ([]env.Var, error) {
	var secrets []string
	in.OnSecret = func(value string) { secrets = append(secrets, value) }
	in.HostIPs, in.Allocatable, in.FileKey = w.config.Node.hostIPs(), w.config.Node.Allocatable, w.config.Parts.FileKey
	vars, err := env.MakeEnvironment(ctx, in, w.memory.known(w.config.Objects.Sources))
	w.memory.secrets.add(in.Container, secrets)
	return vars, err
}

// errRanAfterAll prevents a second run of a container until a sync has inspected the run that was unknown when the plan
// was made.
var errRanAfterAll = errors.New("it has run after all, though the runtime showed it as created")

// startAll starts the plan's containers that need not wait. Those whose images are not there soon stay in flight.
func (w starting) startAll(ctx context.Context) {
	for _, step := range w.plan.Start {
		w.begin(step)
	}
	w.completeReady(ctx)
}

// begin begins the start of a container, unless it must wait.
func (w starting) begin(step actions.StartStep) {
	if w.unstopped[step.Container.Name] {
		return
	}
	if ask(w.memory, func(p *memory.Pod) bool { return p.Containers.HasRunSince(w.status, step.Container.Name) }) {
		w.fail(&StepError{Step: stepCreate, Reason: errCreateContainer, Container: step.Container, Err: errRanAfterAll})
		return
	}
	if held := w.heldUp(step); held != nil {
		w.fail(held)
		return
	}
	w.flights.add(w.syncer.starter.Begin(w.flights.ctx, w.givenPod(), step), step)
}

// heldUp returns why the container may not start now, nil if it may. It counts the exit of the last instance.
func (w starting) heldUp(step actions.StartStep) *StepError {
	spec := step.Container.Spec(w.pod)
	if step.Hold.Reason == actions.FailureBackOff {
		return w.held.starts[spec.Name]
	}
	now := time.Now()
	last, until := w.lastEnd(step, now), now
	if last != nil {
		w.memory.do(func(p *memory.Pod) {
			if end, wait := p.Crashes.Crashed(spec, last, now); wait {
				until = end
			}
		})
	}
	if !step.Hold.Holds() {
		return nil
	}
	w.eventf(podref.Container(w.pod, step.Container), v1.EventTypeWarning, EventBackOff, "%s", step.Hold.Message)
	return &StepError{
		Step: stepBackOff, Reason: ErrCrashLoopBackOff, Container: step.Container, NotBefore: until, Waits: true,
		Err: fmt.Errorf("back-off %v restarting failed container=%s pod=%s",
			waitSince(last.FinishedAt, now, until).Round(time.Second), spec.Name, podref.Describe(w.pod)),
	}
}

// lastEnd returns the container's current instance if it has ended, nil if it has not. An instance that was killed
// because a probe failed has just ended, although the status is from before: it counts as a crash.
func (w starting) lastEnd(step actions.StartStep, now time.Time) *runtime.ContainerStatus {
	last := w.status.Latest(step.Container.Name)
	if last == nil || last.State == runtime.ContainerExited {
		return last
	}
	for _, k := range w.plan.Kill {
		if k.ID == last.ID && k.Reason.FailedProbe() {
			killed := *last
			killed.FinishedAt = now
			return &killed
		}
	}
	return nil
}

// waitSince returns the whole back-off since the last exit, so that the text is the same in each
// sync.
func waitSince(end, now, until time.Time) time.Duration {
	if end.IsZero() || end.After(now) {
		return until.Sub(now)
	}
	return until.Sub(end)
}

// noteStart reports the result of a start, and returns its failure.
func (w starting) noteStart(ctx context.Context, s containerstart.Started) *StepError {
	pod, spec := w.pod, s.Container.Spec(w.pod)
	if s.Mounted {
		w.memory.setMounts(spec.Name, startMounts{s.ID.ID, s.Release})
	}
	if s.Err == nil {
		w.config.Observer.ContainerStarted(pod, s.Container, s.Took, nil)
		w.memory.succeeded(memory.KeyOf(spec))
		w.log(pod).Info("container started", "container", spec.Name, "reason", s.Reason.String())
		return nil
	}
	err := w.failure(s.Container, s.Err)
	if err.Waits {
		return err
	}
	w.config.Observer.ContainerStarted(pod, s.Container, s.Took, err)
	w.holdUp(ctx, memory.KeyOf(spec), err)
	if ctx.Err() == nil && err.Step != stepPostStart {
		w.eventf(podref.Container(pod, s.Container), v1.EventTypeWarning, EventFailed, "Error: %s", w.describe(err, s.ID.ID))
	}
	return err
}

// failure returns an error of package start as a failed step.
func (w starting) failure(ref actions.ContainerRef, e *containerstart.Error) *StepError {
	err := &StepError{Step: Step(e.Step), Reason: Reason(e.Reason), Container: ref, NotBefore: e.RetryAt, Waits: e.Waits, Err: e.Err}
	if errors.Is(e.Err, containerstart.ErrNotProvided) && w.config.Parts.Mounts == nil {
		err.Err = fmt.Errorf("%w (no Config.Root is set)", err.Err)
	}
	if err.Step != stepImage { // no value is in the name of an image
		err.Err = w.memory.secrets.redactError(err.Err)
	}
	return err
}

// describe returns the text of an error for an event. For an error of the image it is only the reason, because the
// image had an event of its own.
func (w starting) describe(err *StepError, id string) string {
	if err.Step == stepImage {
		return string(err.Reason)
	}
	return withoutIDs(err.Err, append(w.idNames(), w.sandbox.id, "of the pod", id, err.Container.Name)...)
}

// finishHooks runs the postStart handlers of containers that run, although their start or their handler was not
// observed to end.
func (w starting) finishHooks(ctx context.Context) {
	if w.sandbox.ips == nil {
		w.sandbox.ips = w.podIPs()
	}
	for _, step := range w.plan.PostStart {
		if failed := w.syncer.starter.PostStart(ctx, w.givenPod(), step); failed != nil {
			w.fail(w.failure(step.Container, failed))
		}
	}
}
