package syncpod

import (
	"cmp"
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/go-logr/logr"
	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// EventRecorder gets what happens to pods, for whoever runs kubectl describe. The object
// is a *v1.ObjectReference of the pod, with the container as its field path.
//
// A recorder of client-go's tools/record fits as it is. One of its tools/events has a
// method Eventf with other arguments; an [EventRecorderFunc] calls it.
//
// A Syncer on its own waits for each call, so it must not block. A Loop does not: it may
// take its time there, and events of one pod come in their order.
type EventRecorder interface {
	Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any)
}

// EventRecorderFunc is a function that is an [EventRecorder].
type EventRecorderFunc func(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any)

// Eventf calls f.
func (f EventRecorderFunc) Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	f(object, eventtype, reason, messageFmt, args...)
}

type nopEvents struct{}

func (nopEvents) Eventf(k8sruntime.Object, string, string, string, ...any) {}

// The reasons of events, which people and tools look for. They are a kubelet's.
const (
	eventCreated             = "Created"
	eventStarted             = "Started"
	eventFailed              = "Failed"
	eventKilling             = "Killing"
	eventBackOff             = "BackOff"
	eventPulling             = "Pulling"
	eventPulled              = "Pulled"
	eventNeverPull           = "ErrImageNeverPull"
	eventInspectFailed       = "InspectFailed"
	eventSandboxChanged      = "SandboxChanged"
	eventFailedCreateSandbox = "FailedCreatePodSandBox"
	eventFailedKill          = "FailedKillPod"
	eventFailedPostStart     = "FailedPostStartHook"
	eventFailedPreStop       = "FailedPreStopHook"
	eventExceededGrace       = "ExceededGracePeriod"
	eventSandboxStatus       = "FailedPodSandBoxStatus"
	eventFailedSync          = "FailedSync"
	eventFailedCgroup        = "FailedCreatePodContainer"
	eventNetworkNotReady     = "NetworkNotReady"
	eventNoPullSecret        = "FailedToRetrieveImagePullSecret"
	eventFailedMount         = "FailedMount"
	eventResizeStarted       = "ResizeStarted"
	eventResizeDeferred      = "ResizeDeferred"
	eventResizeInfeasible    = "ResizeInfeasible"
	eventResized             = "ResizeCompleted"
	eventResizeFailed        = "ResizeError"
	// eventRecordLost is podsync's own: a container runs again although it should not.
	eventRecordLost = "ContainerRecordLost"
)

// notices are the events and the log lines about pods.
type notices struct{ config *Config }

// eventf records an event about an object, and nothing about nil.
func (n notices) eventf(about *v1.ObjectReference, kind, reason, format string, args ...any) {
	if about != nil {
		n.config.Events.Eventf(about, kind, reason, format, args...)
	}
}

// warn tells what keeps the pod from running. That the agent is to end does not count.
func (o *observedPod) warn(ctx context.Context, reason, format string, args ...any) {
	if ctx.Err() == nil {
		o.eventf(aboutPod(o.pod), v1.EventTypeWarning, reason, format, args...)
	}
}

// aboutPod is how events name a pod: nil for one of which no spec is known.
func aboutPod(pod *v1.Pod) *v1.ObjectReference {
	if pod == nil {
		return nil
	}
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}

// aboutContainer is how events name a container of the pod.
func aboutContainer(pod *v1.Pod, ref actions.ContainerRef) *v1.ObjectReference {
	list := "containers"
	switch ref.Kind {
	case actions.InitContainer:
		list = "initContainers"
	case actions.EphemeralContainer:
		list = "ephemeralContainers"
	}
	about := aboutPod(pod)
	about.FieldPath = "spec." + list + "{" + ref.Name + "}"
	return about
}

// withoutIDs returns an error's text with identifiers replaced: they differ each
// time, and events that differ are not counted together.
func withoutIDs(err error, replacements ...string) string {
	var pairs []string
	for i := 0; i+1 < len(replacements); i += 2 {
		if replacements[i] != "" {
			pairs = append(pairs, replacements[i], replacements[i+1])
		}
	}
	return strings.NewReplacer(pairs...).Replace(err.Error())
}

// idNames pairs the identifiers of the pod's sandboxes and containers with what
// they are called, for withoutIDs.
func (o *observedPod) idNames() []string { return idNames(o.status) }

func idNames(status *runtime.PodStatus) []string {
	var pairs []string
	for i := range status.Sandboxes {
		pairs = append(pairs, status.Sandboxes[i].ID, "of the pod")
	}
	for i := range status.Containers {
		pairs = append(pairs, status.Containers[i].ID.ID, cmp.Or(status.Containers[i].Name, "of the pod"))
	}
	return pairs
}

// log is where the lines about a pod go; pod is nil if no spec of it is known.
func (n notices) log(pod *v1.Pod) logr.Logger {
	if pod == nil {
		return n.config.Log
	}
	return n.config.Log.WithValues("pod", podName(pod), "podUID", pod.UID)
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
