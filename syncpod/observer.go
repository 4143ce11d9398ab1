package syncpod

import (
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/actions"
)

// Observer is told what is done and how long that took, for metrics and traces. Its methods
// are called concurrently and must not block. Embed [NopObserver] to implement only some.
//
// It is one of five: this one is told of the work on pods, podworkers.Observer of when
// there is work, pleg.Observer of how the runtime is watched, probe.Observer of checks of
// probes, and image.Observer of pulls. A loop.Config takes them as Sync.Observer,
// Workers.Observer, Watch.Observer and ProbeObserver, and the last with Sync.Deps.Images,
// which is made by image.New.
type Observer interface {
	// PlanMade is called with the plan of each work on a pod that needs something, before
	// any of it is carried out. What is held up, as by a back-off, is in it, too.
	PlanMade(pod *v1.Pod, plan actions.Plan)
	// PodRunning is called when a pod is first reported to run; took counts from when
	// the Syncer was first told of it.
	PodRunning(pod *v1.Pod, took time.Duration)
	// SandboxCreated is called when a sandbox is ready, or could not be made.
	SandboxCreated(pod *v1.Pod, took time.Duration, err error)
	// ContainerStarted is called when a container runs, or could not be started;
	// took counts from the pull of its image.
	ContainerStarted(pod *v1.Pod, container actions.ContainerRef, took time.Duration, err error)
	// ContainerStopped is called when a container has been stopped, or could not. pod
	// is nil if no spec of it is known.
	ContainerStopped(pod *v1.Pod, container string, took time.Duration, err error)
	// VolumeSetUp is called for each volume of a pod that was made, or brought up to
	// date before a start, and for each that could not be. It is told by the volumes that a
	// Syncer makes of its Root; others are Deps.Volumes, which can tell it themselves.
	VolumeSetUp(pod *v1.Pod, volume *v1.Volume, took time.Duration, err error)
	// ImagePulled is called when a container has the image that was pulled for it, or
	// cannot have it; took counts from when it was asked for. An image that is there
	// already is not told, nor a pull that has to wait for its back-off. See image.Observer
	// for pulls as such, which several containers may wait for.
	ImagePulled(pod *v1.Pod, container actions.ContainerRef, image string, took time.Duration, err error)
	// HookEnded is called when a handler has been run, or was given up. pod is nil if no
	// spec of it is known.
	HookEnded(pod *v1.Pod, container string, hook Hook, took time.Duration, err error)
	// EventDropped is called when an event is lost because Config.Events has not taken
	// those before it. Only a Loop drops any; a Syncer on its own waits for Events.
	EventDropped(object k8sruntime.Object, reason string)
}

// Hook is one of the two handlers that a container can have.
type Hook string

// The handlers.
const (
	PostStart Hook = "PostStart"
	PreStop   Hook = "PreStop"
)

// stopObserver is an [Observer] as package stop uses it.
type stopObserver struct{ Observer }

// PreStopEnded reports the end of a preStop handler.
func (o stopObserver) PreStopEnded(pod *v1.Pod, container string, took time.Duration, err error) {
	o.HookEnded(pod, container, PreStop, took, err)
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
