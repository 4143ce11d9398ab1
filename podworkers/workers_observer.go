package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Observer is told what Workers do, to count and to trace. Its methods are called
// from many goroutines at once, without any lock held, and must return soon: the
// caller waits for them. Of one pod, SyncStarted and SyncEnded alternate unless
// work is abandoned; PodSeen comes before both; PhaseChanged may come a moment
// before or after the call it belongs to. Embed NopObserver to be told only of
// some of it.
type Observer interface {
	// PodSeen tells that a pod was heard of for the first time since it was last
	// forgotten.
	PodSeen(uid types.UID, at time.Time)
	// PhaseChanged tells that a pod has moved on in its life.
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
