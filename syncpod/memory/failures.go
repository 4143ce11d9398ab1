package memory

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/backoff"
)

// Limits are the limits for all back-offs. Zero values mean those of package
// backoff.
type Limits struct{ Initial, Max time.Duration }

// Check validates the limits.
func (l *Limits) Check() error {
	_, err := l.backoff(false)
	return err
}

func (l *Limits) backoff(waitFirst bool) (*backoff.Backoff[Key], error) {
	return backoff.New(backoff.Config[Key]{Initial: l.Initial, Max: l.Max, WaitFirst: waitFirst})
}

// Key identifies a step. A failure delays the next try only if the key is the same: a container whose image or
// resources change may run immediately.
type Key struct{ Container, Image, Resources string }

// KeyOf returns a container's start key, the zero Key for nil.
func KeyOf(c *v1.Container) Key {
	if c == nil {
		return Key{}
	}
	return Key{c.Name, c.Image, c.Resources.String()}
}

// Failures are the back-offs of failed steps; an F describes each failure. Most pods have none:
// the maps are created with the first failure.
type Failures[F any] struct {
	limits   *Limits
	backOffs *backoff.Backoff[Key]
	// last are the last failures, by key.
	last map[Key]F
	// excused are the keys of the steps that have failed once since they last succeeded, because the
	// runtime was unavailable.
	excused map[Key]bool
}

// NewFailures returns Failures without a failure.
func NewFailures[F any](limits *Limits) Failures[F] { return Failures[F]{limits: limits} }

// IsEmpty reports whether nothing has failed yet.
func (f *Failures[F]) IsEmpty() bool { return f.backOffs == nil }

// Held returns the failure that delays the key's next try, and until when.
func (f *Failures[F]) Held(key Key, now time.Time) (failure F, until time.Time, wait bool) {
	failure, failed := f.last[key]
	if !failed {
		return failure, time.Time{}, false
	}
	until, wait = f.backOffs.Check(key, now)
	return failure, until, wait
}

// Preview returns until when the next try of a key would have to wait after a failure. It notes nothing.
func (f *Failures[F]) Preview(key Key, now time.Time) (until time.Time) {
	backOffs := f.backOffs
	if backOffs == nil {
		backOffs, _ = f.limits.backoff(true) // the limits were checked
	}
	until, wait := backOffs.Preview(key, now, time.Time{})
	if !wait {
		return now
	}
	return until
}

// Failed notes a failure, and returns until when the next try has to wait.
func (f *Failures[F]) Failed(key Key, failure F, now time.Time) time.Time {
	if f.backOffs == nil {
		f.backOffs, _ = f.limits.backoff(true) // the limits were checked
	}
	put(&f.last, key, failure)
	return f.backOffs.Advance(key, now, time.Time{})
}

// Excuse reports whether a failure because the runtime was unavailable is the first one since
// the key last succeeded. Only that one does not count.
func (f *Failures[F]) Excuse(key Key) bool {
	first := !f.excused[key]
	put(&f.excused, key, true)
	return first
}

// Succeeded forgets a key's failures.
func (f *Failures[F]) Succeeded(key Key) {
	delete(f.excused, key)
	if f.backOffs != nil {
		f.backOffs.Forget(key)
		delete(f.last, key)
	}
}
