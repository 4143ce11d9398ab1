package lifecycle

import (
	"context"
	"fmt"
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

// Stopper stops containers and pods. All its fields are required. Its methods may be called
// concurrently.
type Stopper struct {
	Runtime   Runtime
	Sandboxes Sandboxes
	Hooks     Hooks
	// Owner selects the containers of this agent.
	Owner cri.Owner
	// Timeout is how long the runtime may take to respond, beyond the grace period.
	Timeout  time.Duration
	Observer Observer
	Events   Events
	Log      logr.Logger
}

// Runtime is the part of the CRI that stops containers.
type Runtime interface {
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	StopContainer(context.Context, *runtimeapi.StopContainerRequest, ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error)
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest, ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error)
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

// Memory records marks on the instances of a pod's containers.
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

// Observer is notified of stops, for metrics and traces. pod is nil if its spec is unknown.
type Observer interface {
	// ContainerStopped is called when a container has stopped, or could not be stopped.
	ContainerStopped(pod *v1.Pod, container string, took time.Duration, err error)
	// PreStopEnded is called when a preStop handler has ended, or was cancelled.
	PreStopEnded(pod *v1.Pod, container string, took time.Duration, err error)
}

// Events records events.
type Events interface {
	Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any)
}

// The reasons of events. They are a kubelet's.
const (
	eventKilling       = "Killing"
	eventFailedPreStop = "FailedPreStopHook"
	eventExceededGrace = "ExceededGracePeriod"
)

// eventf records an event. If about is nil, because the pod's spec is unknown, it records none.
func (s *Stopper) eventf(about *v1.ObjectReference, kind, reason, format string, args ...any) {
	if about != nil {
		s.Events.Eventf(about, kind, reason, format, args...)
	}
}

// Dispose stops a container, whatever its state, and removes it.
func (s *Stopper) Dispose(ctx context.Context, id string) error {
	return s.dispose(ctx, id, minSeconds)
}

func (s *Stopper) dispose(ctx context.Context, id string, timeout int64) error {
	stopping, cancel := context.WithTimeout(ctx, seconds(timeout)+s.Timeout)
	defer cancel()
	if err := s.callStop(stopping, id, timeout); err != nil {
		return err
	}
	return s.Remove(ctx, id)
}

// Remove removes a container that does not run. It succeeds if the container does not exist.
func (s *Stopper) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	_, err := s.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	if err := cri.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}

// callStop calls StopContainer. It succeeds if the container does not exist.
func (s *Stopper) callStop(ctx context.Context, id string, timeout int64) error {
	_, err := s.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	if err := cri.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("stop container: %w", err)
	}
	return nil
}
