package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Observer is told what Workers do, to count and to trace. Its methods are called
// from many goroutines at once, without any lock held, and must return soon: the
// caller waits for them. Embed NopObserver to be told only of some of it.
//
// Of what the work does syncpod.Observer is told, of how the runtime is watched
// pleg.Observer, and of pulls image.Observer. A loop.Config takes this one as
// Workers.Observer; see syncpod.Observer for the others.
//
// The order is that of the work, not of what led to it. Of one pod, SyncStarted
// and SyncEnded alternate unless work is abandoned, and those of one work have the
// same Work.Revision. PodSeen, PhaseChanged and SyncAbandoned come from whoever
// brought the change about, each once, a moment after it: a pod's first
// SyncStarted may come before its PodSeen, and two steps of a short life may come
// in either order.
type Observer interface {
	// PodSeen tells that a pod was heard of for the first time since it was last
	// forgotten.
	PodSeen(uid types.UID, at time.Time)
	// PhaseChanged tells that a pod has moved on in its life. Each pod that is forgotten was
	// reported as Finished before.
	PhaseChanged(uid types.UID, from, to Phase)
	// SyncStarted tells that work begins.
	SyncStarted(w Work)
	// SyncEnded tells how work ended and how long it took, the wait for a fresh
	// status included.
	SyncEnded(w Work, took time.Duration, err error)
	// SyncAbandoned tells that work did not return in time after it was cancelled,
	// and that its pod goes on without it. SyncEnded follows if it ever returns.
	SyncAbandoned(w Work)
}

// NopObserver is an Observer that does nothing.
type NopObserver struct{}

var _ Observer = NopObserver{}

// PodSeen does nothing.
func (NopObserver) PodSeen(types.UID, time.Time) {}

// PhaseChanged does nothing.
func (NopObserver) PhaseChanged(types.UID, Phase, Phase) {}

// SyncStarted does nothing.
func (NopObserver) SyncStarted(Work) {}

// SyncEnded does nothing.
func (NopObserver) SyncEnded(Work, time.Duration, error) {}

// SyncAbandoned does nothing.
func (NopObserver) SyncAbandoned(Work) {}
