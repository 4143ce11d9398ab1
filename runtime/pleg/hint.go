package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// hint has a pod looked at because of an event, unless a look has shown already
// what the event is about. It must be called with mu held.
func (w *Watcher) hint(p *pod, e cri.Event, working bool) {
	switch {
	case p.next != nil: // it will begin after the event
	case working:
		w.hold(p)
	case p.now != nil && p.hinted == nil:
		p.hinted = &e
	case p.now != nil, !shows(p.latest, e):
		w.ask(p)
	}
}

// hold puts the look at a pod off until the work on it ends. It must be called
// with mu held.
func (w *Watcher) hold(p *pod) {
	if p.held {
		return
	}
	p.held = true
	if by := time.Now().Add(eventHold); p.retryAt.IsZero() || by.Before(p.retryAt) {
		p.retryAt = by
	}
	w.wake(p)
}

// follow has a pod looked at once more if the look that has ended does not show
// what the event is about that came meanwhile. It must be called with mu held.
func (w *Watcher) follow(p *pod) {
	e := p.hinted
	p.hinted = nil
	if e != nil && p.next == nil && !shows(p.latest, *e) {
		w.ask(p)
	}
}

// Worked tells that the work on a pod has ended: what events have said of it
// meanwhile is looked at now.
func (w *Watcher) Worked(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pods[uid]; p != nil && p.held && w.gate != gateStopped {
		w.ask(p)
	}
}

// shows reports whether a status shows what an event is about, or something that
// comes after it: containers and sandboxes never go back to an earlier state.
func shows(s *runtime.PodStatus, e cri.Event) bool {
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
			return e.Type != cri.EventDeleted && (sb.State == runtime.SandboxNotReady || e.Type != cri.EventStopped)
		}
	}
	return false
}

func containerShows(state runtime.ContainerState, t cri.EventType) bool {
	switch t {
	case cri.EventCreated:
		return true
	case cri.EventStarted:
		return state == runtime.ContainerRunning || state == runtime.ContainerExited
	case cri.EventStopped:
		return state == runtime.ContainerExited
	}
	return false
}
