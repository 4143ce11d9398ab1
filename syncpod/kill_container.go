package syncpod

import (
	"cmp"
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/base/deadline"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/hook"
	"github.com/podsync/podsync/syncpod/internal/memory"
	"github.com/podsync/podsync/syncpod/internal/podref"
)

// kill is the end of one container.
type kill struct {
	pod    *v1.Pod // nil if no spec is known
	memory *podMemory
	ref    actions.ContainerRef // the zero value if it is not in the spec
	spec   *v1.Container        // nil if it is not in the spec
	// noted is the handler that a container without a spec was created with.
	noted hook.Request
	// podIP is the pod's first address, empty if it has none.
	podIP  string
	status *runtime.ContainerStatus
	// deadline is when its time is over, preStop and waiting for others included.
	deadline time.Time
	message  string
	// sandbox is stopped as well if the runtime does not listen. Empty for a
	// container whose pod goes on.
	sandbox string
	// sandboxStopped is set if that was done. Not nil if sandbox is not empty.
	sandboxStopped *bool
	// turn gets true when those that stop before this one have stopped, and false when one
	// of them could not be. Nil for one that waits for nobody.
	turn <-chan bool
}

// killContainer stops a container by its deadline, or within two seconds if there is less left: it
// runs the preStop handler, waits for the containers that stop first, and then stops it. A handler
// that still runs at the deadline continues for two seconds beside the stop. A runtime that does
// not answer has Config.Limits.StopTimeout more. killContainer fails unless the runtime has
// answered that the container, or its sandbox, is stopped.
func (s *stopper) killContainer(ctx context.Context, k kill) (err error) {
	began := time.Now()
	defer func() { s.config.Observer.ContainerStopped(k.pod, k.status.Name, time.Since(began), err) }()
	if k.status.State == runtime.ContainerCreated {
		return s.disposeOfCreated(ctx, k)
	}
	s.announce(k)
	end := s.preStop(ctx, k)
	defer end()
	if err := k.wait(ctx); err != nil {
		return err
	}
	return s.stop(ctx, k)
}

// disposeOfCreated removes a container that has not been started, as far as the
// runtime knows: it may be about to start, and then the runtime refuses and it
// has to be tried again.
func (s *stopper) disposeOfCreated(ctx context.Context, k kill) error {
	if err := s.stopContainer(ctx, k.status.ID.ID, 0); err != nil {
		return err
	}
	return s.removeContainer(ctx, k.status.ID.ID)
}

func (s *stopper) announce(k kill) {
	if k.memory.marked(k.status.ID.ID, memory.StopSignalled) {
		return
	}
	s.eventf(k.about(), v1.EventTypeNormal, eventKilling, "%s", k.message)
	s.log(k.pod).Info("stopping container", "container", k.status.Name, "containerID", k.status.ID.String(), "why", k.message)
}

// about is how events name the container, or its pod if it is in no spec.
func (k kill) about() *v1.ObjectReference {
	if k.spec == nil {
		return podref.Pod(k.pod)
	}
	return podref.Container(k.pod, k.ref)
}

// preStopExtension is how long a preStop handler may run beyond the grace period, once, as the API
// documents it. The container is stopped in these seconds.
const preStopExtension = minStopSeconds * time.Second

// preStop runs the handler, once for each instance, and returns when it has ended or the deadline
// has passed. A handler that still runs then continues beside the stop, for at most
// preStopExtension: end cancels it, and returns when it has ended.
func (s *stopper) preStop(ctx context.Context, k kill) (end func()) {
	req, ok := k.preStopRequest()
	if !ok || k.status.State != runtime.ContainerRunning {
		return func() {}
	}
	if !time.Now().Before(k.deadline) || !k.memory.mark(k.status.ID.ID, memory.PreStopRun) {
		return func() {}
	}
	hooking, cancel := context.WithDeadline(ctx, k.deadline.Add(preStopExtension))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.runPreStop(ctx, hooking, k, req)
	}()
	timer := time.NewTimer(time.Until(k.deadline))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	return func() {
		cancel()
		<-ended
	}
}

// runPreStop runs the handler until hooking ends, which ends with ctx. It reports a failure in an
// event, and otherwise ignores it.
func (s *stopper) runPreStop(ctx, hooking context.Context, k kill, req hook.Request) {
	began := time.Now()
	_, err := s.config.Deps.Hooks.Run(hooking, req)
	s.config.Observer.HookEnded(k.pod, k.status.Name, PreStop, time.Since(began), err)
	if err != nil && ctx.Err() == nil {
		s.eventf(k.about(), v1.EventTypeWarning, eventFailedPreStop, "PreStopHook failed")
	}
	// The runtime knows the deadline, too, and may be the first to say that it is over.
	if hooking.Err() != nil || errors.Is(cri.Classify(err), cri.ErrDeadline) {
		return
	}
	k.memory.mark(k.status.ID.ID, memory.PreStopCompleted)
	if time.Until(k.deadline) > recordTimeout { // with less, no agent would run it again
		s.record(ctx, k.memory)
	}
}

// errTurn is why a container is not stopped whose time is not over.
var errTurn = errors.New("a container that stops before it could not be stopped")

// wait returns when it is the container's turn, or its time is over. If one before it
// could not be stopped, all of them are to be tried again.
func (k kill) wait(ctx context.Context) error {
	if k.turn == nil {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(k.deadline))
	defer timer.Stop()
	select {
	case its := <-k.turn:
		if !its && time.Now().Before(k.deadline) {
			return cmp.Or(ctx.Err(), errTurn)
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// soon is how long the runtime is given to answer once a stop's time is over.
const soon = 500 * time.Millisecond

// stop asks the runtime to stop the container. A runtime that does not answer
// when the time is over is asked to kill, and then to stop the whole sandbox: some
// wait for a stop that came first, however short the second is (containerd #6080).
func (s *stopper) stop(ctx context.Context, k kill) error {
	id := k.status.ID.ID
	firstSignal := k.memory.mark(id, memory.StopSignalled)
	timeout := stopTimeout(k.deadline, time.Now(), !firstSignal)
	first, cancel := context.WithTimeout(ctx, seconds(timeout)+soon)
	err := s.askToStop(first, id, timeout)
	late := deadline.Over(first) && !deadline.Over(ctx)
	cancel()
	if err == nil || !late {
		if ctx.Err() == nil && err != nil && !cri.Ambiguous(err) {
			k.memory.unmark(id, memory.StopSignalled) // it was refused, and the signal not sent
		}
		return err
	}
	s.eventf(podref.Pod(k.pod), v1.EventTypeWarning, eventExceededGrace, "Container runtime did not kill the pod within specified grace period.")
	return s.escalate(ctx, k)
}

func (s *stopper) escalate(ctx context.Context, k kill) error {
	id := k.status.ID.ID
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.StopTimeout)
	defer cancel()
	first, stopFirst := context.WithTimeout(ctx, soon)
	err := s.askToStop(first, id, 0)
	stopFirst()
	switch {
	case err == nil, k.sandbox == "" && ctx.Err() != nil:
		return err
	case k.sandbox == "":
		return s.askToStop(ctx, id, 0)
	}
	s.log(k.pod).Info("stopping the sandbox of a container that does not stop", "container", k.status.Name)
	if sandboxErr := s.config.Deps.Sandboxes.Stop(ctx, k.sandbox); sandboxErr != nil {
		return errors.Join(err, sandboxErr)
	}
	*k.sandboxStopped = true
	return nil
}
