package syncpod

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// launching starts a container that was created, and runs its postStart handler.
type launching struct{ *start }

// launch starts the created container.
func (st launching) launch(ctx context.Context) *StepError {
	if hooks := st.config.Extensions.Lifecycle; hooks != nil {
		if err := hooks.PreStartContainer(ctx, st.pod, st.spec, st.id.ID); err != nil {
			return &StepError{Step: stepStart, Reason: errPreStartHook, Err: err}
		}
	}
	if st.postStart() != nil {
		// The mark is set before the start, because the answer to the start may be lost (kubernetes #122803).
		st.memory.Mark(st.id.ID, memory.PostStartPending)
	}
	first := ask(st.memory, func(p *memory.Pod) bool { return p.Containers.SetEverStarted(st.spec.Name, true) })
	st.memory.Mark(st.id.ID, memory.StartRequested)
	st.record(ctx)
	err := st.syncer.runner.Start(ctx, st.id.ID)
	if !cri.Ambiguous(err) {
		st.memory.Unmark(st.id.ID, memory.StartRequested)
	}
	if err != nil {
		if first && !cri.Ambiguous(err) {
			st.memory.do(func(p *memory.Pod) { p.Containers.SetEverStarted(st.spec.Name, false) })
		}
		return &StepError{Step: stepStart, Reason: errRunContainer, Err: err}
	}
	if started := st.asStarted(); ask(st.memory, func(p *memory.Pod) bool { return p.Containers.Started(started) }) {
		st.record(ctx) // immediately: the runtime may lose it before the next inspection
	}
	return nil
}

// asStarted returns the status of the started container.
func (st launching) asStarted() runtime.ContainerStatus {
	return runtime.ContainerStatus{
		Name: st.spec.Name, ID: st.id, Attempt: st.madeAttempt, State: runtime.ContainerRunning, StartedAt: time.Now(),
		SandboxID: st.sandbox.id, SpecHash: runtime.HashContainer(st.spec), Image: st.spec.Image,
	}
}

func (st *start) postStart() *v1.LifecycleHandler {
	if st.spec.Lifecycle == nil {
		return nil
	}
	return st.spec.Lifecycle.PostStart
}

// postStartTimeout is how long a postStart handler may take; the containers after it in the spec wait for it.
const postStartTimeout = 2 * time.Minute

// runPostStart runs the handler. If it fails or times out, the container is killed; if ctx ends
// first, the container is left as it is, and the handler runs again or the container is stopped by
// the next call.
func (st launching) runPostStart(ctx context.Context, postStart *v1.LifecycleHandler) *StepError {
	began := time.Now()
	hooking, cancel := context.WithTimeout(ctx, postStartTimeout)
	result, err := st.config.Parts.Hooks.Run(hooking, handler.Request{
		Handler: postStart, Container: st.spec.Name, ContainerID: st.id.ID, Ports: st.spec.Ports, PodIP: handler.Address(st.pod, st.sandbox.ips),
		HTTPFallback: true,
	})
	st.config.Observer.HookEnded(st.pod, st.spec.Name, PostStart, time.Since(began), err)
	if result.HTTPFallback && err == nil {
		st.eventf(podref.Pod(st.pod), v1.EventTypeWarning, handler.EventHTTPFallback, handler.FallbackMessage, st.spec.Name)
	}
	// The runtime has the same deadline, and may report it first.
	timedOut := hooking.Err() != nil || errors.Is(cri.Classify(err), cri.ErrDeadline)
	cancel()
	switch {
	case err == nil:
		st.memory.Unmark(st.id.ID, memory.PostStartPending)
		st.record(ctx)
		return nil
	case ctx.Err() != nil:
		return &StepError{Step: stepPostStart, Reason: errPostStartHook, Err: ctx.Err()}
	case timedOut:
		err = fmt.Errorf("%w: %v", errHookTimeout, postStartTimeout)
	}
	failed := &StepError{Step: stepPostStart, Reason: errPostStartHook, Err: err}
	st.event(v1.EventTypeWarning, EventFailedPostStartHook, "PostStartHook failed")
	if err := st.killAfterHook(ctx); err != nil {
		failed.Err = errors.Join(failed.Err, err)
	}
	return failed
}

func (st launching) killAfterHook(ctx context.Context) error {
	err := st.syncer.stopper.KillContainer(ctx, lifecycle.Container{
		Pod: st.pod, Ref: &st.Container, Memory: st.syncer.stopMemory(st.memory), IPs: st.sandbox.ips,
		Status:   &runtime.ContainerStatus{Name: st.spec.Name, ID: st.id, State: runtime.ContainerRunning},
		Deadline: time.Now().Add(lifecycle.PodGrace(st.pod, nil)), Message: "FailedPostStartHook",
	})
	if err == nil {
		st.memory.Unmark(st.id.ID, memory.PostStartPending)
	}
	return err
}

// finishHooks runs the postStart handlers of containers that run, although their start or their handler was not
// observed to end.
func (w starting) finishHooks(ctx context.Context) {
	if w.sandbox.ips == nil {
		w.sandbox.ips = w.podIPs()
	}
	for _, step := range w.plan.PostStart {
		st := &start{work: w.work, startStep: startStep{Container: step.Container}, spec: step.Container.Spec(w.pod), id: step.ID}
		if failed := (launching{st}).runPostStart(ctx, st.postStart()); failed != nil {
			failed.Container = step.Container
			w.fail(failed)
		}
	}
}
