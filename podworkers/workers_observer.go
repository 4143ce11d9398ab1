package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Observer receives Workers' events, for metrics and traces. Workers call its methods from many goroutines at
// once, without a lock, and wait for them: they must return soon. Embed NopObserver to implement only some
// methods.
//
// syncpod.Observer receives the work's steps, pleg.Observer the runtime's events, and image.Observer the pulls.
// In an agent.Config this one is Workers.Observer; see syncpod.Observer for the others.
//
// SyncStarted and SyncEnded of one pod alternate, unless work is abandoned, and have equal values of Work
// for the same work. PodSeen, PhaseChanged and SyncAbandoned are called once each, by the goroutine
// that made the change, shortly after it. Therefore the first SyncStarted of a pod may precede its PodSeen, and
// two phases of a short life may be reported in either order.
type Observer interface {
	// PodSeen reports a new pod.
	PodSeen(uid types.UID, at time.Time)
	// PhaseChanged reports a pod's next phase. Each pod is reported as Finished before it is
	// reported as Forgotten.
	PhaseChanged(uid types.UID, from, to Phase)
	// SyncStarted reports the start of work.
	SyncStarted(w Work)
	// SyncEnded reports the result of work, and its duration with the wait for a fresh status.
	SyncEnded(w Work, took time.Duration, err error)
	// SyncAbandoned reports work that did not return in time after its cancellation. The pod gets other
	// work. SyncEnded follows when the abandoned work returns.
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
