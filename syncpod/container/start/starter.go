package start

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// StarterConfig configures a Starter. Images, the MemoryBytes of Node, and either Runtime or all of Containers, Hooks and
// Stopper are required.
type StarterConfig struct {
	// Images ensures that images are present. Required. A *image.Manager implements it.
	Images Images
	// Runtime is what the defaults for Containers, Hooks and Stopper call.
	Runtime StarterRuntime
	// Containers creates and starts containers. Default: a *Runner.
	Containers Containers
	// Hooks runs postStart handlers. Default: a *handler.Runner.
	Hooks lifecycle.Hooks
	// Stopper stops a container whose postStart handler has failed. Default: a *lifecycle.Stopper.
	Stopper Stopper
	// Owner labels the containers. Default: the agent "podsync".
	Owner cri.Owner
	// RuntimeName is the type in container IDs ("containerd" in containerd://...).
	RuntimeName string
	// Node has the settings that are common to all containers. Its MemoryBytes is required.
	Node container.Node

	// Logs reports which attempts have logs. Default: LogFiles.
	Logs Logs
	// Mounts returns a container's mounts. Default: a container that mounts a volume does not start.
	Mounts Mounts
	// Devices allocates the node's devices. Default: none.
	Devices Devices
	// CPUSet returns the CPUs and the memory nodes of a container that is about to be created. Default: no container is restricted.
	CPUSet func(pod *v1.Pod, container string) runtime.CPUSet
	// Lifecycle is called before the creation and before each container's start. Default: none.
	Lifecycle Lifecycle
	// Slot waits until a container may be created, and returns a function that frees the slot once the container has
	// started or failed. Default: no wait.
	Slot func(ctx context.Context) (free func(), err error)
	// Running is called once a container runs, before its postStart handler. Default: nothing.
	Running func(pod Pod, container string, started Started)

	// Observer is notified of pulls and handlers, Events gets a kubelet's events, and Log a line for each container
	// that is adopted or given up. Default: none.
	Observer Observer
	Events   lifecycle.Events
	Log      logr.Logger
}

// StarterRuntime is the part of CRI that a Starter's defaults call. A *cri.Client implements it.
type StarterRuntime interface {
	Runtime
	lifecycle.Runtime
}

// Containers creates and starts containers, and resolves lost answers.
type Containers interface {
	Create(ctx context.Context, req Request) (id string, err error)
	Start(ctx context.Context, id string) error
}

// Images ensures that images are present.
type Images interface {
	// EnsureImageExists pulls the image if its policy and the node require it. The Starter releases the result once the
	// container is created.
	EnsureImageExists(ctx context.Context, req image.Request) (*image.Image, error)
}

// Stopper stops a container while its pod keeps running.
type Stopper interface {
	KillContainer(ctx context.Context, c lifecycle.Container) error
}

// Mounts provides one container's mounts and devices: volumes, /etc/hosts, the termination message file.
type Mounts interface {
	Mounts(ctx context.Context, req container.MountRequest) (container.Mounts, error)
}

// Devices allocates the node's devices to containers. A *device.Keeper implements it.
type Devices interface {
	// Choose chooses the devices that Allocate returns later, without waiting. It is called before the wait for the image.
	// Its error is ignored, because Allocate returns it again.
	Choose(ctx context.Context, pod *v1.Pod, container *v1.Container) error
	// Allocate returns the devices of a container, the same ones as long as the pod exists.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allocation, error)
}

// Lifecycle is called at the points at which a kubelet calls its internal lifecycle. After an error the container is not
// created or not started.
type Lifecycle interface {
	// PreCreateContainer may change config, which is what the runtime gets.
	PreCreateContainer(ctx context.Context, pod *v1.Pod, container *v1.Container, config *runtimeapi.ContainerConfig) error
	PreStartContainer(ctx context.Context, pod *v1.Pod, container *v1.Container, id string) error
}

// Observer is notified of steps and their durations.
type Observer interface {
	// ImagePulled is called when an image that was pulled is available, or has failed, but not for a pull that backs off.
	ImagePulled(pod *v1.Pod, container actions.ContainerRef, image string, took time.Duration, err error)
	// PostStartEnded is called when a postStart handler has ended, or was given up.
	PostStartEnded(pod *v1.Pod, container string, took time.Duration, err error)
}

// NopObserver does nothing.
type NopObserver struct{}

// ImagePulled does nothing.
func (NopObserver) ImagePulled(*v1.Pod, actions.ContainerRef, string, time.Duration, error) {}

// PostStartEnded does nothing.
func (NopObserver) PostStartEnded(*v1.Pod, string, time.Duration, error) {}

type noEvents struct{}

func (noEvents) Eventf(k8sruntime.Object, string, string, string, ...any) {}

// A Pod is a pod whose containers start. It is read only, and stays as it is during a call.
type Pod struct {
	// Spec is the pod, with the API's defaults and its allocated resources. Required.
	Spec *v1.Pod
	// Status is the pod's status in the runtime, read after the last call that changed the pod. Default: an empty one.
	Status *runtime.PodStatus
	// Sandbox is the ready sandbox. Required.
	Sandbox Sandbox
	// Memory remembers earlier container starts. Default: a new one, which knows none.
	Memory Memory
	// Environment returns a container's variables. The input has the pod, the container and the addresses of the pod.
	// Default: env.MakeEnvironment without sources.
	Environment func(ctx context.Context, in env.Input) ([]env.Var, error)
	// PullSecrets returns the secrets to pull an image with, and an error if it may lack some. It is called if the image
	// requires it. Default: none.
	PullSecrets func(ctx context.Context, image string) ([]v1.Secret, error)
}

// A Sandbox is the sandbox that containers start in.
type Sandbox struct {
	// ID is the runtime's identifier, and Config the configuration with which the sandbox was created. Required.
	ID     string
	Config *runtimeapi.PodSandboxConfig
	// RuntimeHandler is the sandbox's handler, "" for the default.
	RuntimeHandler string
	// IPs are the addresses of the pod, the primary first.
	IPs []string
	// UserNamespace and ExtraGroups are those of the sandbox, which its containers share.
	UserNamespace *runtimeapi.UserNamespace
	ExtraGroups   []int64
}

// Memory is what must be remembered of a pod, so that no number is used twice, no handler is lost, and a container that must
// run once does not run twice. Its methods may be called concurrently. A *keeper.Pod implements it.
type Memory interface{ lifecycle.PodMemory }

// Started is the result of one start.
type Started struct {
	// Container is the container, and Reason why it was started.
	Container actions.ContainerRef
	Reason    actions.Reason
	// ID is the created instance, and Attempt its number. Zero if none was created.
	ID      runtime.ContainerID
	Attempt uint32
	// Took is how long the start took, from the image request.
	Took time.Duration
	// PostStart runs next. It is nil if the container has no postStart handler, its start has failed, or StartAll has run it.
	PostStart *actions.PostStartStep
	// Err is why the container was not started, or why its postStart handler failed. Nil if it runs.
	Err *Error
	// Mounted is set if the node has made mounts for this start, which replace those of an earlier start. Release frees them. It
	// is nil unless the start has no known outcome: the caller calls it once the instance has started or is removed.
	Mounted bool
	Release func() error
}

// A Starter starts containers. It keeps no state. Its methods may be called concurrently for different pods. Create it with
// NewStarter.
type Starter struct{ config StarterConfig }

// NewStarter returns a Starter. It makes no call.
func NewStarter(c StarterConfig) (*Starter, error) {
	switch {
	case c.Images == nil:
		return nil, errors.New("container/start: StarterConfig.Images is missing")
	case c.Runtime == nil && (c.Containers == nil || c.Hooks == nil || c.Stopper == nil):
		return nil, errors.New("container/start: StarterConfig.Runtime is missing")
	case c.Node.MemoryBytes == 0:
		return nil, errors.New("container/start: StarterConfig.Node.MemoryBytes is missing")
	}
	if err := c.Owner.Validate(); err != nil {
		return nil, fmt.Errorf("container/start: StarterConfig.Owner: %w", err)
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	if c.Events == nil {
		c.Events = noEvents{}
	}
	if c.Logs == nil {
		c.Logs = LogFiles{}
	}
	if c.Runtime == nil {
		return &Starter{c}, nil
	}
	stopper, err := lifecycle.New(lifecycle.Config{Runtime: c.Runtime, Hooks: c.Hooks, Owner: c.Owner, Events: c.Events, Log: c.Log})
	if err != nil {
		return nil, err
	}
	if c.Stopper == nil {
		c.Stopper = stopper
	}
	if c.Hooks == nil {
		if c.Hooks, err = handler.New(handler.Config{Exec: c.Runtime}); err != nil {
			return nil, err
		}
	}
	if c.Containers == nil {
		if c.Containers, err = New(Config{Runtime: c.Runtime, Disposer: stopper, Owner: c.Owner}); err != nil {
			return nil, err
		}
	}
	return &Starter{c}, nil
}

// StartAll starts containers in order, each with its postStart handler, and yields each result before the next container starts.
// Their images are pulled concurrently, so that they are present as early as possible. A failure does not stop the others:
// containers that depend on it are not in the plan yet. StartAll ends early when ctx or the caller's loop does. Held steps
// are left out.
func (s *Starter) StartAll(ctx context.Context, pod Pod, steps []actions.StartStep) iter.Seq[Started] {
	return func(yield func(Started) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var all []*Start
		defer func() {
			cancel()
			for _, st := range all {
				st.Release()
			}
		}()
		for _, step := range steps {
			if !step.Hold.Holds() {
				all = append(all, s.Begin(ctx, pod, step))
			}
		}
		for _, st := range all {
			started := st.Complete(ctx)
			if step := started.PostStart; step != nil {
				started.PostStart, started.Err = nil, s.PostStart(ctx, *st.target.pod, *step)
				started.Took = time.Since(st.target.began)
			}
			if !yield(started) || ctx.Err() != nil {
				return
			}
		}
	}
}

// A Start is the start of one container, whose images are being pulled. A program that must not wait for a pull or a postStart
// handler, because another of the pod's containers restarts meanwhile, uses Starts instead of StartAll.
type Start struct {
	starter *Starter
	target  *target
	ready   chan struct{}
}

// Begin begins to pull a container's images. The pull ends with ctx. The caller must call Release after it.
func (s *Starter) Begin(ctx context.Context, pod Pod, step actions.StartStep) *Start {
	st := &Start{starter: s, ready: make(chan struct{})}
	if pod.checkStart(step.Container) != nil { // Complete returns the error
		close(st.ready)
		st.target = &target{pod: &pod, step: step, began: time.Now()}
		return st
	}
	pod = pod.withDefaults()
	t := &target{pod: &pod, step: step, spec: step.Container.Spec(pod.Spec), began: time.Now(), pulled: make(chan pulled, 1)}
	if s.config.Devices != nil { // before the image, so that statuses have the devices during the pull
		_ = s.config.Devices.Choose(ctx, t.pod.Spec, t.spec) // Allocate returns the same error later
	}
	st.target = t
	go func() {
		defer close(st.ready)
		t.pulled <- s.pull(ctx, t)
	}()
	return st
}

// Ready returns a channel that is closed when the images are present, or cannot be pulled now.
func (st *Start) Ready() <-chan struct{} { return st.ready }

// Complete waits for the images and starts the container. Then the caller must run Started.PostStart, with
// Starter.PostStart. Complete must be called once at most, and not concurrently for two containers in a pod.
func (st *Start) Complete(ctx context.Context) Started { return st.starter.start(ctx, st.target) }

// Release waits until the pull has returned, and releases the images if no container was created from them.
func (st *Start) Release() {
	<-st.ready
	st.target.releaseUnused()
}

// withDefaults returns p with defaults for missing fields.
func (p Pod) withDefaults() Pod {
	if p.Status == nil {
		p.Status = &runtime.PodStatus{UID: p.Spec.UID, Name: p.Spec.Name, Namespace: p.Spec.Namespace}
	}
	if p.Memory == nil {
		p.Memory = new(lifecycle.ProcessMemory)
	}
	if p.Environment == nil {
		p.Environment = func(ctx context.Context, in env.Input) ([]env.Var, error) {
			return env.MakeEnvironment(ctx, in, env.Sources{})
		}
	}
	return p
}
