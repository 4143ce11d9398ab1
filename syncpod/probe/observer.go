package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
)

// Observer is told of each check that a Prober makes, for metrics. Its methods are called
// one at a time, while the Prober is locked: they must return soon, and must not call it.
// Embed NopObserver to be told only of some of it.
//
// A loop.Config takes it as ProbeObserver; see syncpod.Observer for the others.
type Observer interface {
	// Checked tells how a check ended. Of one that was cut short, such as by the end
	// of its container, nothing is told.
	Checked(Check)
	// PodForgotten tells that no check of a pod follows, unless it comes again. It is
	// told of pods without probes, too, and may be told twice.
	PodForgotten(uid types.UID)
}

// Check is one turn of a probe. What was asked and answered is not in it.
type Check struct {
	// Pod is the one that was probed. It is not to be written to.
	Pod       *v1.Pod
	Container string
	Kind      Kind
	// Outcome is that of this check alone, whatever the thresholds: ProbeUnknown if
	// nothing can be said, as when a command could not be run.
	Outcome actions.ProbeResult
	Took    time.Duration
}

// NopObserver is an Observer that does nothing.
type NopObserver struct{}

var _ Observer = NopObserver{}

// Checked does nothing.
func (NopObserver) Checked(Check) {}

// PodForgotten does nothing.
func (NopObserver) PodForgotten(types.UID) {}
