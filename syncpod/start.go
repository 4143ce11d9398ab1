package syncpod

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/limiter"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

type startStep = actions.StartStep

// start is the start of one container.
type start struct {
	*work
	startStep
	spec  *v1.Container
	began time.Time
	// image receives the result for the image.
	image chan imageResult
	// id is the created container, madeAttempt its attempt.
	id          runtime.ContainerID
	madeAttempt uint32
	// mounts are the mounts on the node that exist only during the start.
	mounts startMounts
	// succeeded is set once the start has succeeded.
	succeeded bool
}

// starting starts the containers of a plan.
type starting struct{ *work }

// errRanAfterAll prevents a second run of a container until a sync has inspected the run that was unknown when the plan
// was made.
var errRanAfterAll = errors.New("it has run after all, though the runtime showed it as created")

// startAll starts the plan's containers in order. Their images are pulled concurrently, so that they are present as
// early as possible.
func (w starting) startAll(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var pulls sync.WaitGroup
	var starts []*start
	defer func() {
		cancel()
		pulls.Wait()
		releaseAll(starts)
	}()
	for _, step := range w.plan.Start {
		if w.unstopped[step.Container.Name] {
			continue
		}
		if ask(w.memory, func(p *memory.Pod) bool { return p.Containers.HasRunSince(w.status, step.Container.Name) }) {
			w.fail(&StepError{Step: stepCreate, Reason: errCreateContainer, Container: step.Container, Err: errRanAfterAll})
			continue
		}
		st := &start{work: w.work, startStep: step, spec: step.Container.Spec(w.pod), began: time.Now(), image: make(chan imageResult, 1)}
		if held := (progress{st}).heldUp(); held != nil {
			w.fail(held)
			continue
		}
		starts = append(starts, st)
		pulls.Go(func() { pulling{st}.ensureImages(ctx) })
	}
	w.runAll(ctx, starts)
}

// runAll starts each container. A failure does not block the others: containers that depend on it
// are not in the plan yet.
func (w starting) runAll(ctx context.Context, starts []*start) {
	for _, st := range starts {
		err := progress{st}.run(ctx)
		switch {
		case err != nil:
			w.fail(err)
		case st.succeeded:
			put(&w.started, st.spec.Name, true)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// progress is the start of one container, from its image to the end of its postStart handler.
type progress struct{ *start }

// heldUp returns why the container may not start now, nil if it may. It counts the exit of the last instance.
func (st progress) heldUp() *StepError {
	if st.Hold.Reason == actions.FailureBackOff {
		return st.held.starts[st.spec.Name]
	}
	now := time.Now()
	last, until := st.lastEnd(now), now
	if last != nil {
		st.memory.do(func(p *memory.Pod) {
			if end, wait := p.Crashes.Crashed(st.spec, last, now); wait {
				until = end
			}
		})
	}
	if !st.Hold.Holds() {
		return nil
	}
	st.event(v1.EventTypeWarning, EventBackOff, "%s", st.Hold.Message)
	return &StepError{
		Step: stepBackOff, Reason: ErrCrashLoopBackOff, Container: st.Container, NotBefore: until, Waits: true,
		Err: fmt.Errorf("back-off %v restarting failed container=%s pod=%s",
			waitSince(last.FinishedAt, now, until).Round(time.Second), st.spec.Name, podref.Describe(st.pod)),
	}
}

// lastEnd returns the container's current instance if it has ended, nil if it has not. An instance that was killed
// because a probe failed has just ended, although the status is from before: it counts as a crash.
func (st progress) lastEnd(now time.Time) *runtime.ContainerStatus {
	last := st.status.Latest(st.Container.Name)
	if last == nil || last.State == runtime.ContainerExited {
		return last
	}
	for _, k := range st.plan.Kill {
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

// run starts the container, and reports the result.
func (st progress) run(ctx context.Context) *StepError {
	err := st.pipeline(ctx)
	if st.succeeded = err == nil; st.succeeded {
		st.config.Observer.ContainerStarted(st.pod, st.Container, time.Since(st.began), nil)
		st.memory.succeeded(memory.KeyOf(st.spec))
		st.log(st.pod).Info("container started", "container", st.spec.Name, "reason", st.Reason.String())
		return nil
	}
	err.Container = st.Container
	if err.Step != stepImage { // no value is in the name of an image
		err.Err = st.memory.secrets.redactError(err.Err)
	}
	if err.Waits {
		return err
	}
	st.config.Observer.ContainerStarted(st.pod, st.Container, time.Since(st.began), err)
	st.holdUp(ctx, memory.KeyOf(st.spec), err)
	if ctx.Err() == nil && err.Step != stepPostStart {
		st.event(v1.EventTypeWarning, EventFailed, "Error: %s", st.describe(err))
	}
	return err
}

// pipeline starts the container, from its image to the end of its postStart handler.
func (st progress) pipeline(ctx context.Context) *StepError {
	chooseDevices(ctx, st.config.Extensions.Devices, st.pod, st.spec)
	images, failed := pulling(st).waitForImages(ctx)
	if failed != nil {
		return failed
	}
	if failed := st.inTurn(ctx, images); failed != nil {
		return failed
	}
	st.event(v1.EventTypeNormal, EventStarted, "Container started")
	launching(st).linkLog()
	if handler := st.postStart(); handler != nil {
		return launching(st).runPostStart(ctx, handler)
	}
	return nil
}

// Containers start before sandboxes are created: the pods closest to running come first.
const (
	sandboxPriority limiter.Priority = iota
	containerPriority
)

// inTurn creates and starts the container when a slot is free. The images are leased until the
// container exists or has failed.
func (st progress) inTurn(ctx context.Context, images imageResult) (failed *StepError) {
	defer func() { st.endMounts(failed) }()
	if endTurn, err := st.syncer.pace.Take(ctx, containerPriority); err != nil {
		failed = &StepError{Step: stepCreate, Reason: errCreateContainer, Err: err}
	} else {
		defer endTurn()
		failed = creating(st).create(ctx, images)
	}
	images.release()
	if failed != nil {
		return failed
	}
	return launching(st).launch(ctx)
}

// describe returns the text of an error for an event. For an error of the image it is only the reason, because the
// image had an event of its own.
func (st progress) describe(err *StepError) string {
	if err.Step == stepImage {
		return string(err.Reason)
	}
	return withoutIDs(err.Err, append(st.idNames(), st.sandbox.id, "of the pod", st.id.ID, st.spec.Name)...)
}

func (st *start) event(kind, reason, format string, args ...any) {
	st.eventf(podref.Container(st.pod, st.Container), kind, reason, format, args...)
}
