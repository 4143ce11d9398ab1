package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
)

// Config configures a Stopper.
type Config struct {
	// Runtime stops containers. Required.
	Runtime Runtime
	// Sandboxes stops a pod's sandboxes. Default: one StopPodSandbox of Runtime. A *run.Runner of sandbox/run, which retries
	// until the network is released, is another.
	Sandboxes Sandboxes
	// Hooks runs preStop handlers. Default: a *handler.Runner that runs commands with Runtime.
	Hooks Hooks
	// Lifecycle is called before and after each container's stop. Default: none.
	Lifecycle Lifecycle
	// Owner selects this agent's containers, when preStop handlers for a pod without a known spec are read from
	// its containers' annotations. Default: the agent "podsync".
	Owner cri.Owner
	// Timeout is how long the runtime may take to respond, beyond the grace period. Default 30 s.
	Timeout time.Duration
	// Observer is notified of stops, Events gets a kubelet's events, and Log a line for each stop. Default: none.
	Observer Observer
	Events   Events
	Log      logr.Logger
}

// defaultTimeout is Config.Timeout's default.
const defaultTimeout = 30 * time.Second

// Stopper stops containers and pods. Its methods may be called concurrently, but only one at a time for one container.
type Stopper struct{ config Config }

// New returns a Stopper. It makes no call and starts nothing.
func New(c Config) (*Stopper, error) {
	switch {
	case c.Runtime == nil:
		return nil, errors.New("lifecycle: Config.Runtime is missing")
	case c.Timeout < 0:
		return nil, fmt.Errorf("lifecycle: Config.Timeout is negative: %v", c.Timeout)
	}
	if err := c.Owner.Validate(); err != nil {
		return nil, fmt.Errorf("lifecycle: Config.Owner: %w", err)
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	if c.Sandboxes == nil {
		c.Sandboxes = sandboxes{c.Runtime}
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	if c.Events == nil {
		c.Events = noEvents{}
	}
	if c.Hooks == nil {
		hooks, err := handler.New(handler.Config{Exec: c.Runtime})
		if err != nil {
			return nil, err
		}
		c.Hooks = hooks
	}
	return &Stopper{c}, nil
}

// Runtime is the part of the CRI that stops containers and sandboxes, and runs the commands of preStop handlers.
type Runtime interface {
	cri.Execer
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	StopContainer(context.Context, *runtimeapi.StopContainerRequest, ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error)
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest, ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error)
}

// sandboxes stops a sandbox with one call.
type sandboxes struct{ runtime Runtime }

func (s sandboxes) Stop(ctx context.Context, id string) error {
	_, err := s.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err := cri.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("stop sandbox: %w", err)
	}
	return nil
}

// Sandboxes stops sandboxes.
type Sandboxes interface {
	// Stop stops a sandbox. It succeeds if the sandbox does not exist.
	Stop(ctx context.Context, id string) error
}

// Hooks runs preStop handlers.
type Hooks interface {
	Run(ctx context.Context, req handler.Request) (handler.Result, error)
}

// Lifecycle is called before a started container is stopped, and after it has stopped. pod is nil if its spec is
// unknown. Errors are logged, and prevent nothing.
type Lifecycle interface {
	PreStopContainer(ctx context.Context, pod *v1.Pod, container, id string) error
	PostStopContainer(ctx context.Context, pod *v1.Pod, container, id string) error
}

// Memory records marks on a pod's container instances.
type Memory interface {
	// Mark marks an instance, and reports whether it did not have the mark.
	Mark(id string, what memory.Mark) (first bool)
	// Unmark removes a mark.
	Unmark(id string, what memory.Mark)
	// Marked reports whether an instance has the mark.
	Marked(id string, what memory.Mark) bool
	// Record persists the marks for the next agent.
	Record(ctx context.Context)
}

// Exits is what a Memory may be besides: it knows of exits that others observe during a stop.
type Exits interface {
	// Exited returns a channel that is closed when the instance has been observed to have exited. The stop then waits no
	// longer for its preStop handler.
	Exited(id string) <-chan struct{}
}

// ProcessMemory is a PodMemory of one pod that lasts as long as the process. The zero ProcessMemory knows nothing of the pod.
// Its methods may be called concurrently.
type ProcessMemory struct {
	mu  sync.Mutex
	pod *memory.Pod
}

// Do calls f with the pod's memory.
func (m *ProcessMemory) Do(f func(*memory.Pod)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pod == nil {
		m.pod = new(memory.New(&memory.Limits{}))
	}
	f(m.pod)
}

// Mark marks an instance, and reports whether it did not have the mark.
func (m *ProcessMemory) Mark(id string, what memory.Mark) (first bool) {
	m.Do(func(p *memory.Pod) { first = p.Instances.Mark(id, what) })
	return first
}

// Unmark removes a mark.
func (m *ProcessMemory) Unmark(id string, what memory.Mark) {
	m.Do(func(p *memory.Pod) { p.Instances.Unmark(id, what) })
}

// Marked reports whether an instance has the mark.
func (m *ProcessMemory) Marked(id string, what memory.Mark) (marked bool) {
	m.Do(func(p *memory.Pod) { marked = p.Instances.Marked(id, what) })
	return marked
}

// Record does nothing.
func (*ProcessMemory) Record(context.Context) {}

// Observer is notified of stops, for metrics and traces. pod is nil if its spec is unknown.
type Observer interface {
	// ContainerStopped is called when a container has stopped, or could not be stopped.
	ContainerStopped(pod *v1.Pod, container string, took time.Duration, err error)
	// PreStopEnded is called when a preStop handler has ended, or was cancelled.
	PreStopEnded(pod *v1.Pod, container string, took time.Duration, err error)
}

// NopObserver does nothing.
type NopObserver struct{}

// ContainerStopped does nothing.
func (NopObserver) ContainerStopped(*v1.Pod, string, time.Duration, error) {}

// PreStopEnded does nothing.
func (NopObserver) PreStopEnded(*v1.Pod, string, time.Duration, error) {}

// Events records events.
type Events interface {
	Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any)
}

type noEvents struct{}

func (noEvents) Eventf(k8sruntime.Object, string, string, string, ...any) {}

// Event reasons. They are a kubelet's.
const (
	EventKilling             = "Killing"
	EventFailedPreStopHook   = "FailedPreStopHook"
	EventExceededGracePeriod = "ExceededGracePeriod"
)

// eventf records an event. If about is nil, because the pod's spec is unknown, it records none.
func (s *Stopper) eventf(about *v1.ObjectReference, kind, reason, format string, args ...any) {
	if about != nil {
		s.config.Events.Eventf(about, kind, reason, format, args...)
	}
}

// Dispose stops a container, whatever its state, and removes it.
func (s *Stopper) Dispose(ctx context.Context, id string) error {
	return s.dispose(ctx, id, minSeconds)
}

func (s *Stopper) dispose(ctx context.Context, id string, timeout int64) error {
	stopping, cancel := context.WithTimeout(ctx, seconds(timeout)+s.config.Timeout)
	defer cancel()
	if err := s.callStop(stopping, id, timeout); err != nil {
		return err
	}
	return s.Remove(ctx, id)
}

// Remove removes a container that does not run. It succeeds if the container does not exist.
func (s *Stopper) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	_, err := s.config.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	if err := cri.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}

// callStop calls StopContainer. It succeeds if the container does not exist.
func (s *Stopper) callStop(ctx context.Context, id string, timeout int64) error {
	_, err := s.config.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	if err := cri.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("stop container: %w", err)
	}
	return nil
}
