package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
)

// Observer observes each probe check, for metrics. Its methods are called one at a time: they
// must return soon, and must not call the agent. Embed NopObserver to implement only some.
//
// An agent.Config has it as ProbeObserver; see syncpod.Observer for the others.
type Observer interface {
	// Checked is called after a check, except after one that was cancelled, for example by its
	// container's end.
	Checked(Check)
	// PodForgotten is called when no further check for a pod follows, unless the pod is
	// observed again. It is also called for pods without probes, and may be called twice.
	PodForgotten(uid types.UID)
}

// Kind is a probe, among the three that a container can have.
type Kind string

// The kinds, as events name them.
const (
	Startup   Kind = "Startup"
	Liveness  Kind = "Liveness"
	Readiness Kind = "Readiness"
)

// Check is one probe execution, without request and response.
type Check struct {
	// Pod is the pod that was probed. It must not be modified.
	Pod       *v1.Pod
	Container string
	Kind      Kind
	// Outcome is what this check alone returned, whatever the thresholds: ProbeUnknown if there
	// is none, for example because a command could not be run.
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
