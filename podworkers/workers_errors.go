package podworkers

import (
	"errors"
	"time"
)

var (
	// ErrStopped is returned by Workers whose Run has ended or is about to end, and is the cause
	// of their work's cancellation. The pods keep running.
	ErrStopped = errors.New("podworkers: the workers have stopped")
	// ErrDraining is returned for a new pod after Drain was called.
	ErrDraining = errors.New("podworkers: draining, no new pods are taken")
	// ErrInterrupted is the cause of the cancellation of work whose pod must stop, or stop sooner.
	ErrInterrupted = errors.New("podworkers: interrupted by a request to stop the pod")
)

// retryError is an error with the time of the next attempt, such as a back-off's end. Workers find it
// with errors.As.
type retryError interface {
	error
	// RetryAt is the time of the next attempt. If it has passed, Workers wait 1 s. The
	// zero time has no effect.
	RetryAt() time.Time
}

// temporaryError is an error that probably disappears within seconds, such as the restart of a runtime or
// a network that is not ready. Workers find it with errors.As and retry after 1 s.
type temporaryError interface {
	error
	Temporary() bool
}
