package podworkers

import (
	"errors"
	"time"
)

var (
	// ErrStopped is returned by Workers whose Run is over or about to be, and is
	// the cause of the cancellation of work in flight then: pods are left as they
	// are.
	ErrStopped = errors.New("podworkers: the workers have stopped")
	// ErrDraining is returned for a pod that is heard of for the first time after
	// Drain was called.
	ErrDraining = errors.New("podworkers: draining, no new pods are taken")
	// ErrInterrupted is the cause of the cancellation of work in flight when its
	// pod is to stop, or to stop sooner.
	ErrInterrupted = errors.New("podworkers: interrupted by a request to stop the pod")
)

// RetryError is an error that knows when the work may succeed, such as the end
// of a back-off. Workers look for it with errors.As and try again at that time.
type RetryError interface {
	error
	// RetryAt is when to try again. A time that has passed means soon, see
	// Config.RetryTransient; the zero time says nothing.
	RetryAt() time.Time
}

// TemporaryError is an error that is likely to be gone in a moment, such as a
// runtime that restarts or a network that is not up yet. Workers look for it
// with errors.As and try again soon, see Config.RetryTransient.
type TemporaryError interface {
	error
	Temporary() bool
}
