package podworkers

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/jitter"
)

// maxRemovalRetry is the longest wait between two tries to remove a pod. Nothing runs that
// would wait for it.
const maxRemovalRetry = time.Minute

// A waiter is a pod whose next work has to wait. A wait for a time that nobody has named
// is spread, so that pods that failed together do not come back together.
type waiter struct {
	*Config
	uid types.UID
	now time.Time
}

// retryIn returns after how long failed work is done again. failures counts those in
// a row, this one included; next is what the work's result asks for.
func (w waiter) retryIn(work WorkType, err error, failures int, next time.Time) time.Duration {
	wait := w.spread(backoff(w.RetryInitial, w.RetryMax, failures))
	if work == RemovePod {
		wait = backoff(w.RetryInitial, maxRemovalRetry, failures)
	}
	if known, ok := errors.AsType[RetryError](err); ok && !known.RetryAt().IsZero() {
		wait = w.until(known.RetryAt())
	} else if soon, ok := errors.AsType[TemporaryError](err); ok && soon.Temporary() {
		wait = w.spread(w.RetryTransient)
	}
	if !next.IsZero() {
		wait = min(wait, w.until(next))
	}
	return wait
}

// resyncIn returns after how long a pod is looked at again whose work was done, and
// whose result asks for next.
func (w waiter) resyncIn(next time.Time) time.Duration {
	wait := w.spread(w.ResyncInterval)
	if !next.IsZero() {
		wait = min(wait, w.until(next))
	}
	return wait
}

// backoff returns the wait after that many failures in a row.
func backoff(initial, longest time.Duration, failures int) time.Duration {
	wait := initial
	for range failures - 1 {
		if wait > longest/2 {
			return longest
		}
		wait *= 2
	}
	return wait
}

// until returns the wait for a time that was named. One that has passed must not
// make work go round without a pause.
func (w waiter) until(at time.Time) time.Duration {
	if wait := at.Sub(w.now); wait > 0 {
		return wait
	}
	return w.spread(w.RetryTransient)
}

// spread returns d and up to half of it more.
func (w waiter) spread(d time.Duration) time.Duration {
	return d + jitter.UpTo(d/2, string(w.uid), w.now)
}
