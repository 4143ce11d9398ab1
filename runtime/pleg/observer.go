package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Observer is told what a Watcher does, to count and to trace. Its methods are
// called from many goroutines at once, without any lock held, and must return
// soon. Embed NopObserver to be told only of some of it.
//
// Of the work on pods podworkers.Observer and syncpod.Observer are told, and of pulls
// image.Observer. A loop.Config takes this one as Watch.Observer; see syncpod.Observer
// for the others.
type Observer interface {
	// Listed tells how a list of all pods ended, how many it showed and how long it
	// took.
	Listed(pods int, took time.Duration, err error)
	// Looked tells how a look at one pod ended and how long it took.
	Looked(uid types.UID, took time.Duration, err error)
	// Streaming tells that events are relied on from now on, or no longer.
	Streaming(on bool)
}

// NopObserver is an Observer that does nothing.
type NopObserver struct{}

// Listed does nothing.
func (NopObserver) Listed(int, time.Duration, error) {}

// Looked does nothing.
func (NopObserver) Looked(types.UID, time.Duration, error) {}

// Streaming does nothing.
func (NopObserver) Streaming(bool) {}
