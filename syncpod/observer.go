package syncpod

import (
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/lifecycle"
)

// Observer is notified of steps and their durations, for metrics and traces. Its methods are called
// concurrently and must not block. Embed [NopObserver] to implement only some.
//
// There are five observers: this one for the work on pods, podworkers.Observer for its scheduling,
// pleg.Observer for the change detection, probe.Observer for probes, and image.Observer for pulls.
// Observe of an agent.Config adds any of them.
type Observer interface {
	// PlanMade is called with the plan of each sync that needs a change, before any of it is
	// carried out. Steps that wait, for example for a back-off, are included.
	PlanMade(pod *v1.Pod, plan actions.Plan)
	// PodRunning is called when a pod is first reported as running; took counts from the Syncer's
	// first call for the pod.
	PodRunning(pod *v1.Pod, took time.Duration)
	// SandboxCreated is called when a sandbox is ready or its creation has failed.
	SandboxCreated(pod *v1.Pod, took time.Duration, err error)
	// ContainerStarted is called when a container runs, or could not be started;
	// took counts from its image's pull.
	ContainerStarted(pod *v1.Pod, container actions.ContainerRef, took time.Duration, err error)
	// ContainerStopped is called when a container has been stopped, or could not be stopped. pod is nil if its
	// spec is unknown.
	ContainerStopped(pod *v1.Pod, container string, took time.Duration, err error)
	// VolumeSetUp is called for each volume of a pod that was set up, or updated before a start,
	// successfully or not. The default volumes call it; a program that sets Config.Parts.Volumes can call it itself.
	VolumeSetUp(pod *v1.Pod, volume *v1.Volume, took time.Duration, err error)
	// ImagePulled is called when the image that was pulled for a container is available or has
	// failed; took counts from the request. It is not called for an image that is already present,
	// nor for a pull that backs off. See image.Observer for the pulls themselves, which containers
	// may share.
	ImagePulled(pod *v1.Pod, container actions.ContainerRef, image string, took time.Duration, err error)
	// HookEnded is called when a handler has finished or was given up. pod is nil if its spec is
	// unknown.
	HookEnded(pod *v1.Pod, container string, hook Hook, took time.Duration, err error)
	// EventDropped is called when an event is lost because Config.Events has not returned for earlier ones.
	// Only a Loop drops events; a Syncer on its own waits for Events.
	EventDropped(object k8sruntime.Object, reason string)
}

// Hook is one of the two handlers that a container can have.
type Hook string

// The handlers.
const (
	PostStart Hook = "PostStart"
	PreStop   Hook = "PreStop"
)

// stopObserver is an [Observer] as package lifecycle uses it.
type stopObserver struct{ Observer }

// PreStopEnded reports the end of a preStop handler.
func (o stopObserver) PreStopEnded(pod *v1.Pod, container string, took time.Duration, err error) {
	o.HookEnded(pod, container, PreStop, took, err)
}

// stopHooks returns hooks as package lifecycle uses them.
func stopHooks(hooks ContainerLifecycle) lifecycle.Lifecycle {
	if hooks == nil {
		return nil
	}
	return hooks
}

// NopObserver is an [Observer] that does nothing.
type NopObserver struct{}

// PlanMade does nothing.
func (NopObserver) PlanMade(*v1.Pod, actions.Plan) {}

// PodRunning does nothing.
func (NopObserver) PodRunning(*v1.Pod, time.Duration) {}

// SandboxCreated does nothing.
func (NopObserver) SandboxCreated(*v1.Pod, time.Duration, error) {}

// ContainerStarted does nothing.
func (NopObserver) ContainerStarted(*v1.Pod, actions.ContainerRef, time.Duration, error) {}

// ContainerStopped does nothing.
func (NopObserver) ContainerStopped(*v1.Pod, string, time.Duration, error) {}

// VolumeSetUp does nothing.
func (NopObserver) VolumeSetUp(*v1.Pod, *v1.Volume, time.Duration, error) {}

// ImagePulled does nothing.
func (NopObserver) ImagePulled(*v1.Pod, actions.ContainerRef, string, time.Duration, error) {}

// HookEnded does nothing.
func (NopObserver) HookEnded(*v1.Pod, string, Hook, time.Duration, error) {}

// EventDropped does nothing.
func (NopObserver) EventDropped(k8sruntime.Object, string) {}
