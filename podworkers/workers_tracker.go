package podworkers

import "k8s.io/apimachinery/pkg/types"

// A Tracker follows each pod through its life for the program that runs the Workers, which may depend on it. An Observer only
// measures. Each event reaches the Tracker before the Observer. Calls come without a lock held, may be concurrent, and must
// return soon.
//
// WorkStarted and WorkEnded of one pod alternate, unless work is abandoned. PodAdded and PhaseChanged are called once each, by
// the goroutine that made the change, shortly after it. Therefore the first WorkStarted of a pod may precede its PodAdded, and
// two phases of a short life may be reported in either order.
type Tracker interface {
	// PodAdded reports a new pod.
	PodAdded(uid types.UID)
	// WorkStarted reports work before the pod's status is read for it.
	WorkStarted(w Work)
	// WorkEnded reports the result of work.
	WorkEnded(w Work, err error)
	// PhaseChanged reports a pod's next phase. Each pod is reported as Finished before it is
	// reported as Forgotten.
	PhaseChanged(uid types.UID, from, to Phase)
}

// noTracker replaces a missing Tracker.
type noTracker struct{}

func (noTracker) PodAdded(types.UID)                   {}
func (noTracker) WorkStarted(Work)                     {}
func (noTracker) WorkEnded(Work, error)                {}
func (noTracker) PhaseChanged(types.UID, Phase, Phase) {}
