package loop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
)

// observer records the work's progress, and calls the embedder's observer.
type observer struct {
	loop *Loop
	next podworkers.Observer
}

var _ podworkers.Observer = observer{}

func (o observer) PodSeen(uid types.UID, at time.Time) {
	o.loop.states.update(uid, func(s *podState) { s.phase, s.worked, s.lookedAt = podworkers.Syncing, new(atomic.Bool), time.Time{} })
	o.next.PodSeen(uid, at)
}

// PhaseChanged removes finished pods immediately. Two steps of a short life may be reported in
// either order. A life never moves back: the next one begins with PodSeen.
func (o observer) PhaseChanged(uid types.UID, from, to podworkers.Phase) {
	switch {
	case to < podworkers.Forgotten:
		o.loop.states.update(uid, func(s *podState) { s.phase = max(s.phase, to) })
	case o.loop.sources.wants(uid):
		o.loop.table.news.raise() // a new pod with the UID has waited
	}
	if to == podworkers.Finished || to == podworkers.Forgotten {
		o.loop.table.housekeeping.raise()
	}
	o.next.PhaseChanged(uid, from, to)
}

// SyncStarted persists the deadline of a pod that is being stopped. The call that stops it follows
// when the runtime has reported the pod, and this agent may have ended by then.
func (o observer) SyncStarted(w podworkers.Work) {
	if w.Type != podworkers.RemovePod {
		o.loop.states.worked(w.UID).Store(true)
		o.loop.states.update(w.UID, func(s *podState) {
			s.calls++
			s.begin(w, time.Now())
			if w.Type != podworkers.SyncTerminatedPod {
				s.lookedAt = time.Time{}
			}
		})
	}
	if w.Type == podworkers.RemovePod {
		o.loop.states.removalBegan(w)
	}
	if w.Type == podworkers.SyncTerminatingPod {
		record := o.loop.syncer.SetDeadline(w.UID, w.Deadline)
		o.loop.children.Go(func() { record(context.Background()) })
	}
	o.loop.watcher.Hold(w.UID)
	o.next.SyncStarted(w)
}

func (o observer) SyncEnded(w podworkers.Work, took time.Duration, err error) {
	var acted bool
	if w.Type == podworkers.RemovePod {
		o.loop.states.removalFailed(w.UID, err)
	} else {
		o.loop.states.update(w.UID, func(s *podState) { acted = s.ended(w, err, time.Now()) })
	}
	if w.Type == podworkers.SyncTerminatingRuntimePod {
		acted = true // nothing else causes an inspection of the pod
	}
	// The result is inspected now, with or without events (kubernetes #137362). The next call uses
	// that inspection, which therefore starts after the end of this one, unless the last inspection
	// of a stop suffices.
	o.loop.watcher.Release(w.UID, acted)
	o.next.SyncEnded(w, took, err)
}

func (o observer) SyncAbandoned(w podworkers.Work) { o.next.SyncAbandoned(w) }

// lookObserver records which pods the runtime sends no events for, and forwards all calls to the embedder's
// observer.
type lookObserver struct {
	pleg.Observer
	loop *Loop
}

// Inspected records an event if an inspection failed, as a kubelet does. If the runtime is unavailable, it
// records none, because the pod is not the cause.
func (o lookObserver) Inspected(uid types.UID, took time.Duration, err error) {
	o.Observer.Inspected(uid, took, err)
	if err == nil || errors.Is(err, cri.ErrUnavailable) {
		return
	}
	if pod := o.loop.table.find(uid); pod != nil {
		o.loop.table.podEvent(pod, syncpod.EventFailedSync, "error determining status: "+err.Error())
	}
}
