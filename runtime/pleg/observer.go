package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Observer observes an agent's lists and inspections, for metrics and traces. Its methods are
// called concurrently, without a lock held, and must return soon. Embed NopObserver to implement
// only some methods.
//
// Use podworkers.Observer and syncpod.Observer for the work on pods, and image.Observer for pulls.
// An agent.Config has this observer as Watch.Observer; see syncpod.Observer for the others.
type Observer interface {
	// Listed is called after all pods were listed, with the pod count and the duration.
	Listed(pods int, took time.Duration, err error)
	// Inspected is called after a pod's inspection.
	Inspected(uid types.UID, took time.Duration, err error)
	// Streaming is called when the event stream becomes reliable (true) or unreliable (false).
	Streaming(on bool)
}

// NopObserver is an Observer that does nothing.
type NopObserver struct{}

// Listed does nothing.
func (NopObserver) Listed(int, time.Duration, error) {}

// Inspected does nothing.
func (NopObserver) Inspected(types.UID, time.Duration, error) {}

// Streaming does nothing.
func (NopObserver) Streaming(bool) {}
