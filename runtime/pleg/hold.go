package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Hold reports that work on a pod starts. Until Release is called, but for a second at most, the pod's
// events cause no inspection, because most are due to that work. Lists, Inspect and GetNewerThan are
// not delayed. Each Hold must be followed by one Release.
func (w *Watcher) Hold(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pod(uid).held++
}

// Release ends a Hold. The pod is inspected if an event has arrived since its last inspection. Set changed if the work
// has changed something: then the pod is inspected in any case, because a runtime without events does not report it.
func (w *Watcher) Release(uid types.UID, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid]
	if p == nil || p.held == 0 {
		return
	}
	p.held--
	if changed || p.missedEvent && p.held == 0 {
		w.request(p)
	}
	w.forget(p)
}

// maxQueuedEvents is how many pod events are kept while it is inspected. If more arrive, the pod is
// inspected again.
const maxQueuedEvents = 8

// eventSeen requests an inspection of an event's pod, now or when the pod is released,
// unless the newest status already shows the event's cause. It requires mu to be held.
func (w *Watcher) eventSeen(p *pod, e Event) {
	switch {
	case p.now != nil && len(p.queuedEvents) < maxQueuedEvents:
		p.queuedEvents = append(p.queuedEvents, e)
	case shows(p.latest, e):
	case p.held > 0:
		w.hold(p)
	default:
		w.request(p)
	}
}

// hold delays a pod's inspection until the work on it ends. It requires mu to be held.
func (w *Watcher) hold(p *pod) {
	p.missedEvent = true
	if by := time.Now().Add(maxHold); p.retryAt.IsZero() || by.Before(p.retryAt) {
		p.retryAt = by
	}
	w.wake(p)
}

// recheckEvents handles the events that arrived during an inspection: the pod is inspected again if the
// inspection does not show their cause. It requires mu to be held.
func (w *Watcher) recheckEvents(p *pod) {
	events := p.queuedEvents
	p.queuedEvents = nil
	for _, e := range events {
		w.eventSeen(p, e)
	}
}

// shows reports whether a status shows the state that an event reports, or a later
// state: containers and sandboxes never return to an earlier state.
func shows(s *runtime.PodStatus, e Event) bool {
	if s == nil || s.ObservedAt.IsZero() {
		return false
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.ID.ID == e.ContainerID {
			return containerShows(c.State, e.Type)
		}
	}
	for i := range s.Sandboxes {
		if sb := &s.Sandboxes[i]; sb.ID == e.ContainerID {
			return e.Type != EventDeleted && (sb.State == runtime.SandboxNotReady || e.Type != EventStopped)
		}
	}
	return e.Type == EventDeleted
}

func containerShows(state runtime.ContainerState, t EventType) bool {
	switch t {
	case EventCreated:
		return true
	case EventStarted:
		return state == runtime.ContainerRunning || state == runtime.ContainerExited
	case EventStopped:
		return state == runtime.ContainerExited
	}
	return false
}
