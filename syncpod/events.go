package syncpod

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/podref"
)

// EventRecorder receives pod events, as shown by kubectl describe. The object is a
// *v1.ObjectReference of the pod, with the container as its field path.
//
// A recorder of client-go's tools/record can be used as it is. A recorder of tools/events has a
// method Eventf with other arguments; use an [EventRecorderFunc] to call it.
//
// A Syncer waits for each call, so a recorder must not block. A Loop queues events, so that a
// recorder may block there; the events of one pod stay in order.
type EventRecorder interface {
	Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any)
	// AnnotatedEventf records an event with annotations, such as the resource for which a pod was evicted.
	AnnotatedEventf(object k8sruntime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any)
}

// EventRecorderFunc is a function that is an [EventRecorder]. It receives no annotations.
type EventRecorderFunc func(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any)

// Eventf calls f.
func (f EventRecorderFunc) Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	f(object, eventtype, reason, messageFmt, args...)
}

// AnnotatedEventf calls f.
func (f EventRecorderFunc) AnnotatedEventf(object k8sruntime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any) {
	f(object, eventtype, reason, messageFmt, args...)
}

// noEvents records nothing.
func noEvents(k8sruntime.Object, string, string, string, ...any) {}

// The reasons for the events that a Syncer and an agent record. People and tools match them, so they are those of a
// kubelet. Packages lifecycle (EventKilling) and eviction (Reason, PreemptionReason) have the reasons of stops and
// evictions.
const (
	EventCreated                         = containerstart.EventCreated
	EventStarted                         = containerstart.EventStarted
	EventFailed                          = containerstart.EventFailed
	EventBackOff                         = containerstart.EventBackOff
	EventPulling                         = containerstart.EventPulling
	EventPulled                          = containerstart.EventPulled
	EventErrImageNeverPull               = containerstart.EventErrImageNeverPull
	EventInspectFailed                   = containerstart.EventInspectFailed
	EventSandboxChanged                  = "SandboxChanged"
	EventFailedCreatePodSandBox          = "FailedCreatePodSandBox"
	EventFailedKillPod                   = "FailedKillPod"
	EventFailedPostStartHook             = containerstart.EventFailedPostStartHook
	EventFailedPodSandBoxStatus          = "FailedPodSandBoxStatus"
	EventFailedPrepareDynamicResources   = "FailedPrepareDynamicResources"
	EventFailedSync                      = "FailedSync"
	EventFailedCreatePodContainer        = "FailedCreatePodContainer"
	EventNetworkNotReady                 = "NetworkNotReady"
	EventFailedToRetrieveImagePullSecret = "FailedToRetrieveImagePullSecret"
	EventFailedMount                     = "FailedMount"
	EventResizeStarted                   = "ResizeStarted"
	EventResizeDeferred                  = "ResizeDeferred"
	EventResizeInfeasible                = "ResizeInfeasible"
	EventResizeCompleted                 = "ResizeCompleted"
	EventResizeError                     = "ResizeError"
	// EventContainerRecordLost is podsync's own: a container runs again although it should not.
	EventContainerRecordLost = containerstart.EventContainerRecordLost
	// EventUnhealthy and EventProbeWarning are about probes, which package agent runs.
	EventUnhealthy    = "Unhealthy"
	EventProbeWarning = "ProbeWarning"
	// EventOOMKilling is about a container, EventSystemOOM about the node.
	EventOOMKilling = "OOMKilling"
	EventSystemOOM  = "SystemOOM"
	// EventImageGCFailed and EventFreeDiskSpaceFailed are about the node.
	EventImageGCFailed       = "ImageGCFailed"
	EventFreeDiskSpaceFailed = "FreeDiskSpaceFailed"
)

// notices are the events and the log lines about pods.
type notices struct{ config *Config }

// eventf records an event about an object, and nothing about nil.
func (n notices) eventf(about *v1.ObjectReference, kind, reason, format string, args ...any) {
	if about != nil {
		n.config.Events.Eventf(about, kind, reason, format, args...)
	}
}

// warn records a warning about the pod, unless the agent is ending.
func (n notices) warn(ctx context.Context, pod *v1.Pod, reason, format string, args ...any) {
	if ctx.Err() == nil {
		n.eventf(podref.Pod(pod), v1.EventTypeWarning, reason, format, args...)
	}
}

// withoutIDs returns an error's text with identifiers replaced: they differ each
// time, and events that differ are not counted together. The time that it takes grows only linearly with the text and the
// identifiers, which a runtime chooses; strings.Replacer takes the square of an identifier's length.
func withoutIDs(err error, replacements ...string) string {
	var ids []identifier
	for i := 0; i+1 < len(replacements); i += 2 {
		if replacements[i] != "" {
			ids = append(ids, identifier{id: replacements[i], name: replacements[i+1], next: -1})
		}
	}
	var b strings.Builder
	text, at := err.Error(), 0
	for first := firstIn(text, at, ids); first != nil; first = firstIn(text, at, ids) {
		b.WriteString(text[at:first.next])
		b.WriteString(first.name)
		at = first.next + len(first.id)
	}
	b.WriteString(text[at:])
	return b.String()
}

// identifier is an identifier to be replaced by a name. next is where it occurs next.
type identifier struct {
	id, name string
	next     int
}

// firstIn returns the identifier that occurs first in text[at:], or nil.
func firstIn(text string, at int, ids []identifier) *identifier {
	var first *identifier
	for i := range ids {
		c := &ids[i]
		if c.next < at {
			c.next = len(text) // it does not occur
			if n := strings.Index(text[at:], c.id); n >= 0 {
				c.next = at + n
			}
		}
		if c.next < len(text) && (first == nil || c.next < first.next) {
			first = c
		}
	}
	return first
}

// idNames pairs the identifiers of the pod's sandboxes and containers with their names, for
// withoutIDs.
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

// log returns the logger for lines about a pod. pod is nil if its spec is unknown.
func (n notices) log(pod *v1.Pod) logr.Logger { return podref.Log(n.config.Log, pod) }

// maxEventMessage limits an event's message, in bytes.
const maxEventMessage = 4 << 10

// boundedEvents bounds the messages for an EventRecorder, and removes the values of Secrets that the pod's containers have
// in their environments.
type boundedEvents struct {
	to    EventRecorder
	known *memories
}

func (b boundedEvents) Eventf(about k8sruntime.Object, kind, reason, format string, args ...any) {
	b.to.Eventf(about, kind, reason, "%s", b.message(about, format, args))
}

func (b boundedEvents) AnnotatedEventf(about k8sruntime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	b.to.AnnotatedEventf(about, annotations, kind, reason, "%s", b.message(about, format, args))
}

func (b boundedEvents) message(about k8sruntime.Object, format string, args []any) string {
	text := fmt.Sprintf(format, args...)
	if ref, ok := about.(*v1.ObjectReference); ok {
		if m := b.known.get(ref.UID); m != nil {
			text = m.secrets.redact(text)
		}
	}
	return foreign.CutText(text, maxEventMessage)
}
