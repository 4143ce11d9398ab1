package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/deadline"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// Container is a container to stop.
type Container struct {
	// Pod is nil if no spec of the pod is known.
	Pod *v1.Pod
	// Ref names the container in the spec. Default: the container of Pod with the name in Status, if there is one.
	Ref *actions.ContainerRef
	// Status is the instance to stop. Required.
	Status *runtime.ContainerStatus
	// Memory has the steps that were done before. Default: none, so a repeated stop repeats them.
	Memory Memory
	// IPs are the addresses of the pod that the runtime reports, the primary first.
	IPs []string
	// Deadline is when the grace period expires, also for the preStop handler and the wait for other
	// containers. Default: PodGrace of Pod from now.
	Deadline time.Time
	// Message is the message of the Killing event. Default: "Stopping container NAME".
	Message string
}

// kill is one container's stop.
type kill struct {
	Container
	// created is the preStop handler with which the container was created, for a container that is
	// missing in the spec.
	created handler.Request
	// sandbox is stopped if the runtime does not stop the container. Empty for a container
	// whose pod keeps running.
	sandbox string
	// after are the kills that end before this one.
	after []*kill

	// ended is closed when the kill has ended. The fields below are valid from then on.
	ended chan struct{}
	err   error
	// sandboxStopped is set if the sandbox was stopped because the runtime did not stop the
	// container.
	sandboxStopped bool
}

// KillContainer stops a container while its pod keeps running, by the deadline, or within two seconds if less is
// left. A handler that still runs at the deadline continues for two seconds during the stop. The runtime may take
// Config.Timeout longer to respond. KillContainer fails unless the runtime has confirmed that the container is
// stopped.
//
// A container that was created and not started is removed instead: if it is about to start, the runtime rejects the
// removal.
func (s *Stopper) KillContainer(ctx context.Context, c Container) error {
	if c.Status == nil {
		return errors.New("lifecycle: Container.Status is missing")
	}
	if c.Ref != nil && c.Ref.Spec(c.Pod) == nil {
		c.Ref = nil // of another version of the pod
	}
	if c.Ref == nil && c.Pod != nil {
		if ref, found := actions.FindContainer(c.Pod, c.Status.Name); found {
			c.Ref = &ref
		}
	}
	if c.Memory == nil {
		c.Memory = new(ProcessMemory)
	}
	if c.Deadline.IsZero() {
		c.Deadline = time.Now().Add(PodGrace(c.Pod))
	}
	c.Message = cmp.Or(c.Message, actions.KillMessage(c.Status.Name, actions.ReasonNone, false))
	return s.stop(ctx, &kill{Container: c})
}

func (s *Stopper) stop(ctx context.Context, k *kill) (err error) {
	began := time.Now()
	defer func() { s.config.Observer.ContainerStopped(k.Pod, k.Status.Name, time.Since(began), err) }()
	if k.Status.State == runtime.ContainerCreated {
		return s.dispose(ctx, k.Status.ID.ID, 0)
	}
	s.announce(k)
	s.beforeStop(ctx, k)
	end := s.preStop(ctx, k)
	defer end()
	if err := k.wait(ctx); err != nil {
		return err
	}
	if err := s.signal(ctx, k); err != nil {
		return err
	}
	s.PostStop(ctx, k.Pod, k.Status, k.Memory)
	return nil
}

func (s *Stopper) beforeStop(ctx context.Context, k *kill) {
	if s.config.Lifecycle == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	if err := s.config.Lifecycle.PreStopContainer(ctx, k.Pod, k.Status.Name, k.Status.ID.ID); err != nil {
		podref.Log(s.config.Log, k.Pod).Error(err, "PreStopContainer failed", "container", k.Status.Name, "containerID", k.Status.ID.String())
	}
}

// PostStop calls the Lifecycle for a container that has stopped, unless it has succeeded before. Stop calls it; call it for
// a container that has exited by itself.
func (s *Stopper) PostStop(ctx context.Context, pod *v1.Pod, c *runtime.ContainerStatus, m Memory) {
	if s.config.Lifecycle == nil || ctx.Err() != nil || !m.Mark(c.ID.ID, memory.PostStopped) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	if err := s.config.Lifecycle.PostStopContainer(ctx, pod, c.Name, c.ID.ID); err != nil {
		m.Unmark(c.ID.ID, memory.PostStopped)
		podref.Log(s.config.Log, pod).Error(err, "PostStopContainer failed", "container", c.Name, "containerID", c.ID.String())
	}
}

// announce records the Killing event, once for each instance.
func (s *Stopper) announce(k *kill) {
	if k.Memory.Marked(k.Status.ID.ID, memory.StopSignalled) {
		return
	}
	s.eventf(k.about(), v1.EventTypeNormal, EventKilling, "%s", k.Message)
	podref.Log(s.config.Log, k.Pod).Info("stopping container", "container", k.Status.Name, "containerID", k.Status.ID.String(), "why", k.Message)
}

// about returns the involved object of events: the container, or the pod if the container is
// missing in the spec.
func (k *kill) about() *v1.ObjectReference {
	if k.Ref == nil {
		return podref.Pod(k.Pod)
	}
	return podref.Container(k.Pod, *k.Ref)
}

// errOrder is the reason why a container keeps running: one that stops before it could not be stopped, and the grace
// period has not expired.
var errOrder = errors.New("a container that stops before it could not be stopped")

// wait returns when the containers that stop before this one have stopped, or the deadline has passed. If one of
// them could not be stopped, this one keeps running; a later call retries both.
func (k *kill) wait(ctx context.Context) error {
	expired := time.After(time.Until(k.Deadline))
	stopped := true
	for _, first := range k.after {
		select {
		case <-first.ended:
			stopped = stopped && first.err == nil
		case <-expired:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !stopped && time.Now().Before(k.Deadline) {
		return cmp.Or(ctx.Err(), errOrder)
	}
	return ctx.Err()
}

// answerTime is how long the runtime may take to respond after a call's timeout.
const answerTime = 500 * time.Millisecond

// signal calls StopContainer. If the runtime does not respond in time, signal requests that it kills the container,
// and then that it stops the whole sandbox: some runtimes wait for an earlier stop, even if the second has a
// shorter timeout (containerd #6080).
func (s *Stopper) signal(ctx context.Context, k *kill) error {
	id := k.Status.ID.ID
	firstSignal := k.Memory.Mark(id, memory.StopSignalled)
	timeout := timeoutSeconds(k.Deadline, time.Now(), !firstSignal)
	first, cancel := context.WithTimeout(ctx, seconds(timeout)+answerTime)
	err := s.callStop(first, id, timeout)
	late := deadline.Over(first) && !deadline.Over(ctx)
	cancel()
	if err == nil || !late {
		if ctx.Err() == nil && err != nil && !cri.Ambiguous(err) {
			k.Memory.Unmark(id, memory.StopSignalled) // the runtime refused, and sent no signal
		}
		return err
	}
	s.eventf(podref.Pod(k.Pod), v1.EventTypeWarning, EventExceededGracePeriod, "Container runtime did not kill the pod within specified grace period.")
	return s.escalate(ctx, k)
}

// escalate kills a container that the runtime did not stop in time.
func (s *Stopper) escalate(ctx context.Context, k *kill) error {
	id := k.Status.ID.ID
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	first, cancelFirst := context.WithTimeout(ctx, answerTime)
	err := s.callStop(first, id, 0)
	cancelFirst()
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case k.sandbox == "":
		return s.callStop(ctx, id, 0)
	}
	podref.Log(s.config.Log, k.Pod).Info("stopping the sandbox of a container that does not stop", "container", k.Status.Name)
	if sandboxErr := s.config.Sandboxes.Stop(ctx, k.sandbox); sandboxErr != nil {
		return errors.Join(err, sandboxErr)
	}
	k.sandboxStopped = true
	return nil
}
