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
		Node: c.Node.Containers, Logs: c.Parts.Logs, Mounts: mounts, Devices: c.Extensions.Devices, CPUSet: c.startingCPUSet, Lifecycle: c.Extensions.Lifecycle,
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

// startable returns the pod as package start takes it.
func (s *Syncer) startable(d *decision, done *outcome) containerstart.Pod {
	given := containerstart.Pod{
		Spec: d.pod, Status: done.status, Memory: d.memory,
		Environment: func(ctx context.Context, in env.Input) ([]env.Var, error) { return s.environment(ctx, d.memory, in) },
	}
	sb := done.sandbox
	if sb == nil {
		return given
	}
	given.Sandbox = containerstart.Sandbox{
		ID: sb.id, Config: sb.config, RuntimeHandler: sb.handler, IPs: sb.ips, UserNamespace: sb.input.UserNamespace, ExtraGroups: sb.input.ExtraGroups,
	}
	given.PullSecrets = func(ctx context.Context, image string) ([]v1.Secret, error) {
		return sb.secrets.of(ctx, s, d.pod, image)
	}
	return given
}

// environment returns the variables of a container, and remembers the values of Secrets among them.
func (s *Syncer) environment(ctx context.Context, m *podMemory, in env.Input) ([]env.Var, error) {
	var secrets []string
	in.OnSecret = func(value string) { secrets = append(secrets, value) }
	in.HostIPs, in.Allocatable, in.FileKey = s.config.Node.hostIPs(), s.config.Node.Allocatable, s.config.Parts.FileKey
	vars, err := env.MakeEnvironment(ctx, in, m.lastKnown(s.config.Objects.Sources))
	m.secrets.add(in.Container, secrets)
	return vars, err
}

// errRanAfterAll prevents a second run of a container until a sync has inspected the run that was unknown when the plan
// was made.
var errRanAfterAll = errors.New("it has run after all, though the runtime showed it as created")

func ranAfterAll(step actions.StartStep) *StepError {
	return &StepError{Step: stepCreate, Reason: errCreateContainer, Container: step.Container, Err: errRanAfterAll}
}

// beginStart begins the container start, unless it must wait: then it returns the reason.
func (s *Syncer) beginStart(d *decision, done *outcome, step actions.StartStep, inFlight *flights) *StepError {
	if d.memory.hasRunSince(done.status, step.Container.Name) {
		return ranAfterAll(step)
	}
	if held := s.startHold(d, done, step); held != nil {
		return held
	}
	given := s.startable(d, done)
	ctx, cancel := context.WithCancel(inFlight.ctx)
	inFlight.add(&startFlight{s.starter.Begin(ctx, given, step), cancel, given, step, time.Now()})
	return nil
}

// startHold returns why the container may not start now, nil if it may. It counts the exit of the last instance.
func (s *Syncer) startHold(d *decision, done *outcome, step actions.StartStep) *StepError {
	spec := step.Container.Spec(d.pod)
	if step.Hold.Reason == actions.FailureBackOff {
		return d.facts.held.starts[spec.Name]
	}
	now := time.Now()
	last, until := lastEnd(d, done, step, now), now
	if last != nil {
		if end, wait := d.memory.crashed(spec, last, now); wait {
			until = end
		}
	}
	if !step.Hold.Holds() {
		return nil
	}
	s.eventf(podref.Container(d.pod, step.Container), v1.EventTypeWarning, EventBackOff, "%s", step.Hold.Message)
	return &StepError{
		Step: stepBackOff, Reason: ErrCrashLoopBackOff, Container: step.Container, NotBefore: until, Waits: true,
		Err: fmt.Errorf("back-off %v restarting failed container=%s pod=%s",
			waitSince(last.FinishedAt, now, until).Round(time.Second), spec.Name, podref.Describe(d.pod)),
	}
}

// lastEnd returns the container's current instance if it has ended, nil if it has not. An instance that was killed
// because a probe failed has just ended, although the status is from before: it counts as a crash.
func lastEnd(d *decision, done *outcome, step actions.StartStep, now time.Time) *runtime.ContainerStatus {
	last := done.status.Latest(step.Container.Name)
	if last == nil || last.State == runtime.ContainerExited {
		return last
	}
	for _, k := range d.plan.Kill {
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

// keepMounts remembers the mounts of a start that has no known outcome.
func (s *Syncer) keepMounts(d *decision, started containerstart.Started) {
	if started.Mounted {
		d.memory.setMounts(started.Container.Name, startMounts{started.ID.ID, started.Release})
	}
}

// noteStart reports the result of a start.
func (s *Syncer) noteStart(ctx context.Context, d *decision, done outcome, started containerstart.Started) outcome {
	spec := started.Container.Spec(d.pod)
	if started.Err == nil {
		s.config.Observer.ContainerStarted(d.pod, started.Container, started.Took, nil)
		d.memory.succeeded(memory.KeyOf(spec))
		s.log(d.pod).Info("container started", "container", spec.Name, "reason", started.Reason.String())
		done.started = append(done.started, spec.Name)
		return done
	}
	err := s.startFailure(d.memory, started.Container, started.Err)
	done.fail(err)
	if err.Waits {
		return done
	}
	s.config.Observer.ContainerStarted(d.pod, started.Container, started.Took, err)
	d.memory.delayRetry(ctx, memory.KeyOf(spec), err)
	if ctx.Err() == nil && err.Step != stepPostStart {
		s.eventf(podref.Container(d.pod, started.Container), v1.EventTypeWarning, EventFailed, "Error: %s", describeStart(&done, err, started.ID.ID))
	}
	return done
}

// startFailure returns an error of package start as a failed step.
func (s *Syncer) startFailure(m *podMemory, ref actions.ContainerRef, e *containerstart.Error) *StepError {
	err := &StepError{Step: Step(e.Step), Reason: Reason(e.Reason), Container: ref, NotBefore: e.RetryAt, Waits: e.Waits, Err: e.Err}
	if errors.Is(e.Err, containerstart.ErrNotProvided) && s.config.Parts.Mounts == nil {
		err.Err = fmt.Errorf("%w (no Config.Root is set)", err.Err)
	}
	if err.Step != stepImage { // no value is in an image's name
		err.Err = m.secrets.redactError(err.Err)
	}
	return err
}

// describeStart returns the text of an error for an event. For an error of the image it is only the reason, because the
// image had an event of its own.
func describeStart(done *outcome, err *StepError, id string) string {
	if err.Step == stepImage {
		return string(err.Reason)
	}
	names := idNames(done.status)
	if done.sandbox != nil {
		names = append(names, done.sandbox.id, "of the pod")
	}
	return withoutIDs(err.Err, append(names, id, err.Container.Name)...)
}
