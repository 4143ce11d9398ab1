package loop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
)

// tracker keeps the state of each pod current, in the order of a pod's life.
type tracker struct{ loop *Loop }

var _ podworkers.Tracker = tracker{}

func (t tracker) PodAdded(uid types.UID) {
	t.loop.states.update(uid, func(s *podState) {
		s.phase, s.worked, s.inspectedAt = podworkers.Syncing, new(atomic.Bool), time.Time{}
	})
}

// WorkStarted persists the deadline of a pod that is being stopped. The call that stops it follows
// when the runtime has reported the pod, and this agent may have ended by then.
func (t tracker) WorkStarted(w podworkers.Work) {
	l := t.loop
	switch w.Type {
	case podworkers.RemovePod:
		l.states.removalBegan(w)
	default:
		l.states.worked(w.UID).Store(true)
		l.states.update(w.UID, func(s *podState) { s.started(w, time.Now()) })
	}
	if w.Type == podworkers.SyncTerminatingPod {
		record := l.syncer.SetDeadline(w.UID, w.Deadline)
		l.children.Go(func() { record(context.Background()) })
	}
	l.watcher.Hold(w.UID)
}

// WorkEnded requests an inspection of the result, with or without events (kubernetes #137362). The next call uses that inspection,
// which therefore starts after the end of this one, unless the last inspection of a stop suffices.
func (t tracker) WorkEnded(w podworkers.Work, err error) {
	var acted bool
	switch w.Type {
	case podworkers.RemovePod:
		t.loop.states.removalFailed(w.UID, err)
	default:
		t.loop.states.update(w.UID, func(s *podState) { acted = s.ended(w, err, time.Now()) })
	}
	if w.Type == podworkers.SyncTerminatingRuntimePod {
		acted = true // nothing else causes an inspection of the pod
	}
	t.loop.watcher.Release(w.UID, acted)
}

// PhaseChanged makes housekeeping remove finished pods immediately. Two phases of a short life may be reported in
// either order, so the later phase counts; the next life begins with PodAdded.
func (t tracker) PhaseChanged(uid types.UID, _, to podworkers.Phase) {
	l := t.loop
	if to != podworkers.Forgotten {
		l.states.update(uid, func(s *podState) { s.phase = max(s.phase, to) })
	} else if l.sources.wants(uid) {
		l.table.reconcile.raise() // a new pod with the UID has waited
	}
	if to == podworkers.Finished || to == podworkers.Forgotten {
		l.table.housekeeping.raise()
	}
	if to == podworkers.Finished {
		l.config.Finished(uid)
	}
}

// unreadable records an event if an inspection failed, as a kubelet does. If the runtime is unavailable, it
// records none, because the pod is not the cause.
func (l *Loop) unreadable(uid types.UID, err error) {
	if pod := l.table.find(uid); pod != nil && !errors.Is(err, cri.ErrUnavailable) {
		l.table.podEvent(pod, syncpod.EventFailedSync, "error determining status: "+err.Error())
	}
}
