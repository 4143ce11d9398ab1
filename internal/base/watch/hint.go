package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Hold reports the start of work on a pod. Until Release is called, but for a second at most,
// events of the pod cause no inspection, because most of them are due to that work; none is caused
// if the newest status shows their cause. Lists, Inspect and GetNewerThan are not delayed. Each Hold must be
// followed by one Release.
func (w *Watcher) Hold(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pod(uid).held++
}

// Release ends a Hold. The pod is inspected if there was an event without a later inspection, or if
// changed says that the work has changed something, which a runtime without events does not report.
func (w *Watcher) Release(uid types.UID, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid]
	if p == nil || p.held == 0 {
		return
	}
	p.held--
	if changed || p.heard && p.held == 0 {
		w.ask(p)
	}
	w.forget(p)
}

// maxHinted is how many events of a pod are kept while it is looked at. Another look
// follows if there are more.
const maxHinted = 8

// hear has a pod looked at that there was an event of, now or when it is released,
// unless a look has shown already what the event is about. It must be called with mu
// held.
func (w *Watcher) hear(p *pod, e Event) {
	switch {
	case p.now != nil && len(p.hinted) < maxHinted:
		p.hinted = append(p.hinted, e)
	case shows(p.latest, e):
	case p.held > 0:
		w.hold(p)
	default:
		w.ask(p)
	}
}

// hold delays the inspection of a pod until the work on it ends. It requires mu to be held.
func (w *Watcher) hold(p *pod) {
	p.heard = true
	if by := time.Now().Add(eventHold); p.retryAt.IsZero() || by.Before(p.retryAt) {
		p.retryAt = by
	}
	w.wake(p)
}

// reconsider has a pod looked at once more if the look that has ended does not show
// what the events are about that came meanwhile. It must be called with mu held.
func (w *Watcher) reconsider(p *pod) {
	hinted := p.hinted
	p.hinted = nil
	for _, e := range hinted {
		w.hear(p, e)
	}
}

// shows reports whether a status shows what an event is about, or something that
// comes after it: containers and sandboxes never go back to an earlier state.
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
