package start

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// A target is one container to start. It does not change.
type target struct {
	pod    *Pod
	step   actions.StartStep
	spec   *v1.Container
	began  time.Time
	pulled chan pulled // receives the images once
}

// check returns an error for what the caller has left out.
func (p *Pod) check(ref actions.ContainerRef) *Error {
	why := ""
	switch {
	case p.Spec == nil:
		why = "Pod.Spec is missing"
	case ref.Spec(p.Spec) == nil:
		why = fmt.Sprintf("Pod.Spec has no %v", ref)
	default:
		return nil
	}
	return invalid(why)
}

// checkStart returns an error for what the caller of a start has left out. A handler needs no sandbox.
func (p *Pod) checkStart(ref actions.ContainerRef) *Error {
	if err := p.check(ref); err != nil {
		return err
	}
	if p.Sandbox.ID == "" || p.Sandbox.Config == nil {
		return invalid("Pod.Sandbox needs an ID and a Config")
	}
	return nil
}

func invalid(why string) *Error {
	return &Error{Step: StepConfig, Reason: ErrCreateContainerConfig, Err: fmt.Errorf("start: %s", why)}
}

// start starts one container: image, slot, attempt, environment, config, create, start.
func (s *Starter) start(ctx context.Context, t *target) (started Started) {
	started.Container, started.Reason = t.step.Container, t.step.Reason
	defer func() { started.Took = time.Since(t.began) }()
	if started.Err = t.pod.checkStart(t.step.Container); started.Err != nil {
		return started
	}
	images, failed := s.awaitImages(ctx, t)
	if failed != nil {
		started.Err = failed
		return started
	}
	made := s.createAndStart(ctx, t, images)
	started.ID, started.Attempt, started.Err, started.Mounted, started.Release = made.id, made.attempt, made.err, made.mounted, made.release
	if started.Err != nil {
		return started
	}
	s.event(t.pod, t.step.Container, v1.EventTypeNormal, EventStarted, "Container started")
	if s.config.Running != nil {
		s.config.Running(*t.pod, t.spec.Name, started)
	}
	if postStart(t.spec) != nil {
		started.PostStart = &actions.PostStartStep{Container: t.step.Container, ID: started.ID}
	}
	return started
}

// instance is a container that was created, or why it was not created or started.
type instance struct {
	id      runtime.ContainerID
	attempt uint32
	err     *Error
	mounted bool
	release func() error
}

// createAndStart creates and starts the container when a slot is free. The images are leased until the container exists or
// has failed. The start's mounts are released at its end, unless the container may yet start.
func (s *Starter) createAndStart(ctx context.Context, t *target, images pulled) (made instance) {
	defer func() {
		if made.release != nil && (made.err == nil || made.err.Step != StepStart || !cri.Ambiguous(made.err.Err)) {
			s.release(t, made)
			made.release = nil
		}
	}()
	if s.config.Slot != nil {
		free, err := s.config.Slot(ctx)
		if err != nil {
			images.release()
			return instance{err: &Error{Step: StepCreate, Reason: ErrCreateContainer, Err: err}}
		}
		defer free()
	}
	made = s.create(ctx, t, images)
	images.release()
	if made.err == nil {
		made.err = s.launch(ctx, t, made)
	}
	return made
}

// release frees a start's mounts. A failure is logged: what stays is unmounted at the container's next start, or when the
// pod is removed.
func (s *Starter) release(t *target, made instance) {
	if err := made.release(); err != nil {
		s.config.Log.Error(err, "a mount for the start of a container stays", "podUID", t.pod.Spec.UID, "containerID", made.id.ID)
	}
}

// create creates the container.
func (s *Starter) create(ctx context.Context, t *target, images pulled) (made instance) {
	attempt, err := s.attempt(t)
	if err != nil {
		return instance{err: &Error{Step: StepConfig, Reason: ErrCreateContainerConfig, Err: fmt.Errorf("attempts in the logs: %w", err)}}
	}
	s.warnOfSecondRun(t)
	var cpuset runtime.CPUSet
	if s.config.CPUSet != nil {
		cpuset = s.config.CPUSet(t.pod.Spec, t.spec.Name)
	}
	config, mounts, err := s.configure(ctx, t, images, attempt, cpuset)
	if mounts != nil {
		made.mounted, made.release = true, mounts.Release
	}
	if err != nil {
		made.err = &Error{Step: StepConfig, Reason: ErrCreateContainerConfig, Err: err}
		return made
	}
	if err := s.config.Logs.MakeDirectory(t.pod.Sandbox.Config.GetLogDirectory(), t.spec.Name); err != nil {
		made.err = &Error{Step: StepCreate, Reason: ErrCreateContainer, Err: fmt.Errorf("directory of the logs: %w", err)}
		return made
	}
	if s.config.Lifecycle != nil {
		if err := s.config.Lifecycle.PreCreateContainer(ctx, t.pod.Spec, t.spec, config); err != nil {
			made.err = &Error{Step: StepCreate, Reason: ErrPreCreateHook, Err: err}
			return made
		}
	}
	id, err := s.config.Containers.Create(ctx, Request{
		SandboxID: t.pod.Sandbox.ID, Sandbox: t.pod.Sandbox.Config, Config: config, Attempts: attempts{t.pod.Memory}, Log: podref.Log(s.config.Log, t.pod.Spec),
	})
	if err != nil {
		made.err = &Error{Step: StepCreate, Reason: ErrCreateContainer, Err: images.explain(err)}
		return made
	}
	t.pod.Memory.Do(func(p *memory.Pod) {
		p.Containers.Used(t.spec.Name, attempt)
		p.Instances.SetResources(id, runtime.ResourcesOf(&t.pod.Spec.Spec, t.spec))
		if cpuset != (runtime.CPUSet{}) {
			p.Instances.SetCPUSet(id, &cpuset)
		}
	})
	s.event(t.pod, t.step.Container, v1.EventTypeNormal, EventCreated, "Container created")
	made.id, made.attempt = runtime.ContainerID{Type: s.config.RuntimeName, ID: id}, attempt
	return made
}

// attempt returns the number of a container's next instance: the highest of those that the plan, the logs and memory
// require. Each of them may lack some instances. None depends on a clock (kubernetes #134153).
func (s *Starter) attempt(t *target) (attempt uint32, err error) {
	if err := ScanLogs(t.pod.Memory, s.config.Logs, t.pod.Sandbox.Config.GetLogDirectory(), t.spec.Name); err != nil {
		return 0, err
	}
	t.pod.Memory.Do(func(p *memory.Pod) { attempt = p.Containers.Attempt(t.spec.Name, t.step.Attempt) })
	return attempt, nil
}

// warnOfSecondRun records a warning that a container that must run once is started although it may already
// have run: an earlier start was requested, and its outcome is unknown (kubernetes #51142).
func (s *Starter) warnOfSecondRun(t *target) {
	var before bool
	t.pod.Memory.Do(func(p *memory.Pod) { before = p.Containers.EverStarted(t.spec.Name) })
	if !before || t.pod.Status.Latest(t.spec.Name) != nil {
		return
	}
	if again, _ := actions.RestartsAfter(t.pod.Spec, t.spec, 0); !again {
		s.event(t.pod, t.step.Container, v1.EventTypeWarning, EventContainerRecordLost, "Container %s may have run before and runs again: the container runtime has lost what became of it", t.spec.Name)
	}
}

// configure returns the container's configuration, and the mounts that the node has made for it, nil if it made none.
func (s *Starter) configure(ctx context.Context, t *target, images pulled, attempt uint32, cpuset runtime.CPUSet) (*runtimeapi.ContainerConfig, *container.Mounts, error) {
	pod, sandbox := t.pod.Spec, &t.pod.Sandbox
	found := container.Image{Ref: images.image.ID, UID: images.image.UID, Username: images.image.Username}
	if err := container.VerifyRunAsNonRoot(pod, t.spec, found); err != nil {
		return nil, nil, err
	}
	vars, err := t.pod.Environment(ctx, inputOf(t))
	if err != nil {
		return nil, nil, err
	}
	given, err := s.devices(ctx, t)
	if err != nil {
		return nil, nil, fmt.Errorf("devices: %w", err)
	}
	vars = withDevices(given, vars)
	var mounts container.Mounts
	var made *container.Mounts
	if s.config.Mounts != nil {
		mounts, err = s.config.Mounts.Mounts(ctx, container.MountRequest{
			Pod: pod, Container: t.spec, Attempt: attempt, Env: vars, PodIPs: sandbox.IPs, Images: images.ids(), RuntimeHandler: sandbox.RuntimeHandler,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("mounts: %w", err)
		}
		made = &mounts
	}
	if err := checkMounts(t.spec, mounts); err != nil {
		return nil, made, err
	}
	if err := container.CheckRecorded(&pod.Spec, t.spec.Name); err != nil {
		return nil, made, err
	}
	config, err := container.GenerateContainerConfig(s.configInput(t, images, found, attempt, cpuset, given, vars, mounts))
	return config, made, err
}

// launch starts the created container.
func (s *Starter) launch(ctx context.Context, t *target, made instance) *Error {
	id, name := made.id.ID, t.spec.Name
	if s.config.Lifecycle != nil {
		if err := s.config.Lifecycle.PreStartContainer(ctx, t.pod.Spec, t.spec, id); err != nil {
			return &Error{Step: StepStart, Reason: ErrPreStartHook, Err: err}
		}
	}
	// The marks are set before the start, because the answer to the start may be lost (kubernetes #122803).
	if postStart(t.spec) != nil {
		t.pod.Memory.Mark(id, memory.PostStartPending)
	}
	var first bool
	t.pod.Memory.Do(func(p *memory.Pod) {
		first = p.Containers.SetEverStarted(name, true)
		p.Instances.Mark(id, memory.StartRequested)
	})
	t.pod.Memory.Record(ctx)
	err := s.config.Containers.Start(ctx, id)
	if !cri.Ambiguous(err) {
		t.pod.Memory.Unmark(id, memory.StartRequested)
	}
	if err != nil {
		if first && !cri.Ambiguous(err) {
			t.pod.Memory.Do(func(p *memory.Pod) { p.Containers.SetEverStarted(name, false) })
		}
		return &Error{Step: StepStart, Reason: ErrRunContainer, Err: err}
	}
	running := runtime.ContainerStatus{
		Name: name, ID: made.id, Attempt: made.attempt, State: runtime.ContainerRunning, StartedAt: time.Now(),
		SandboxID: t.pod.Sandbox.ID, SpecHash: runtime.HashContainer(t.spec), Image: t.spec.Image,
	}
	var news bool
	t.pod.Memory.Do(func(p *memory.Pod) { news = p.Containers.Started(running) })
	if news {
		t.pod.Memory.Record(ctx) // immediately: the runtime may lose it before the next inspection
	}
	return nil
}

// postStart returns the postStart handler for a container, nil if it has none.
func postStart(c *v1.Container) *v1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PostStart
}

// postStartTimeout is how long a postStart handler may take; the containers after it in the spec wait for it.
const postStartTimeout = 2 * time.Minute

// PostStart runs the postStart handler for a container that runs: after its start, or because its start or its handler was not
// observed to end. It may be called beside the starts of other containers of the pod. If the handler fails or times out, the
// container is killed. If ctx ends first, the container is left as it is, and the next call runs the handler again or stops the
// container.
func (s *Starter) PostStart(ctx context.Context, pod Pod, step actions.PostStartStep) *Error {
	if err := pod.check(step.Container); err != nil {
		return err
	}
	pod = pod.withDefaults()
	return s.runPostStart(ctx, &pod, step.Container, step.ID)
}

func (s *Starter) runPostStart(ctx context.Context, pod *Pod, ref actions.ContainerRef, id runtime.ContainerID) *Error {
	began, spec := time.Now(), ref.Spec(pod.Spec)
	hooking, cancel := context.WithTimeout(ctx, postStartTimeout)
	result, err := s.config.Hooks.Run(hooking, handler.Request{
		Handler: postStart(spec), Container: spec.Name, ContainerID: id.ID, Ports: spec.Ports, PodIP: handler.Address(pod.Spec, pod.Sandbox.IPs),
		HTTPFallback: true,
	})
	s.config.Observer.PostStartEnded(pod.Spec, spec.Name, time.Since(began), err)
	if result.HTTPFallback && err == nil {
		s.config.Events.Eventf(podref.Pod(pod.Spec), v1.EventTypeWarning, handler.EventHTTPFallback, handler.FallbackMessage, spec.Name)
	}
	// The runtime has the same deadline, and may report it first.
	timedOut := hooking.Err() != nil || errors.Is(cri.Classify(err), cri.ErrDeadline)
	cancel()
	switch {
	case err == nil:
		pod.Memory.Unmark(id.ID, memory.PostStartPending)
		pod.Memory.Record(ctx)
		return nil
	case ctx.Err() != nil:
		return &Error{Step: StepPostStart, Reason: ErrPostStartHook, Err: ctx.Err()}
	case timedOut:
		err = fmt.Errorf("%w: %v", ErrHookTimeout, postStartTimeout)
	}
	s.event(pod, ref, v1.EventTypeWarning, EventFailedPostStartHook, "PostStartHook failed")
	kill := s.config.Stopper.KillContainer(ctx, lifecycle.Container{
		Pod: pod.Spec, Ref: &ref, Memory: pod.Memory, IPs: pod.Sandbox.IPs,
		Status:   &runtime.ContainerStatus{Name: spec.Name, ID: id, State: runtime.ContainerRunning},
		Deadline: time.Now().Add(lifecycle.PodGrace(pod.Spec)), Message: EventFailedPostStartHook,
	})
	if kill != nil {
		return &Error{Step: StepPostStart, Reason: ErrPostStartHook, Err: errors.Join(err, kill)}
	}
	pod.Memory.Unmark(id.ID, memory.PostStartPending)
	return &Error{Step: StepPostStart, Reason: ErrPostStartHook, Err: err}
}

// attempts are the numbers of a pod's containers in its memory.
type attempts struct{ Memory }

// Used notes that an attempt was given up.
func (a attempts) Used(ctx context.Context, container string, attempt uint32, persist bool) {
	a.Do(func(p *memory.Pod) { p.Containers.Used(container, attempt) })
	if persist {
		a.Record(ctx)
	}
}

// NameReserved counts a refusal of a name.
func (a attempts) NameReserved(container string) (enough bool) {
	a.Do(func(p *memory.Pod) { enough = p.Containers.NameReserved(container, NameReservedRetries) })
	return enough
}

// event records an event about a container.
func (s *Starter) event(pod *Pod, ref actions.ContainerRef, kind, reason, format string, args ...any) {
	s.config.Events.Eventf(podref.Container(pod.Spec, ref), kind, reason, format, args...)
}
