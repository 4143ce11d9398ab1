package podworkers

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/jitter"
)

// maxRemovalRetry is the longest wait between two attempts to remove a pod. No running pod waits for a
// removal.
const maxRemovalRetry = time.Minute

// A waiter computes the wait before the next work of a pod. Unless an error or a result specifies the time, the wait has a
// random part, so that pods that failed together are not retried together.
type waiter struct {
	*Config
	uid types.UID
	now time.Time
}

// retryIn returns the wait before failed work is retried. failures is the number of failures in a row, this one
// included; next is Result.Next.
func (w waiter) retryIn(work WorkType, err error, failures int, next time.Time) time.Duration {
	wait := w.spread(backoff(w.RetryInitial, w.RetryMax, failures))
	if work == RemovePod {
		wait = backoff(w.RetryInitial, maxRemovalRetry, failures)
	}
	if known, ok := errors.AsType[retryError](err); ok && !known.RetryAt().IsZero() {
		wait = w.until(known.RetryAt())
	} else if soon, ok := errors.AsType[temporaryError](err); ok && soon.Temporary() {
		wait = w.spread(w.retryTransient)
	}
	if !next.IsZero() {
		wait = min(wait, w.until(next))
	}
	return wait
}

// resyncIn returns the wait before the next sync of a pod whose work succeeded; next is Result.Next.
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

// until returns the wait for a given time. If the time has passed, it returns a short wait, so that the pod
// is not synced in a busy loop.
func (w waiter) until(at time.Time) time.Duration {
	if wait := at.Sub(w.now); wait > 0 {
		return wait
	}
	return w.spread(w.retryTransient)
}

// spread returns d plus a random part of up to half of d.
func (w waiter) spread(d time.Duration) time.Duration {
	return d + jitter.UpTo(d/2, string(w.uid), w.now)
}
