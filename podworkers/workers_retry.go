package podworkers

import (
	"errors"
	"math/rand/v2"
	"time"
)

// retryIn returns how long after now failed work is done again. failures counts
// those in a row, this one included; next is what the work's result asks for.
func (c *Config) retryIn(err error, failures int, next, now time.Time) time.Duration {
	wait := c.backoff(failures)
	if known, ok := errors.AsType[RetryError](err); ok && !known.RetryAt().IsZero() {
		wait = c.until(known.RetryAt(), now)
	} else if soon, ok := errors.AsType[TemporaryError](err); ok && soon.Temporary() {
		wait = jitter(c.RetryTransient)
	}
	if !next.IsZero() {
		wait = min(wait, c.until(next, now))
	}
	return wait
}

// resyncIn returns how long after now a pod is looked at again whose work was
// done, and whose result asks for next.
func (c *Config) resyncIn(next, now time.Time) time.Duration {
	wait := jitter(c.ResyncInterval)
	if !next.IsZero() {
		wait = min(wait, c.until(next, now))
	}
	return wait
}

// backoff returns the wait after that many failures in a row.
func (c *Config) backoff(failures int) time.Duration {
	wait := c.RetryInitial
	for range failures - 1 {
		if wait > c.RetryMax/2 {
			return jitter(c.RetryMax)
		}
		wait *= 2
	}
	return jitter(wait)
}

// until returns the wait for a time that was named. One that has passed must not
// make work go round without a pause.
func (c *Config) until(at, now time.Time) time.Duration {
	if wait := at.Sub(now); wait > 0 {
		return wait
	}
	return jitter(c.RetryTransient)
}

// jitter returns d and up to half of it more.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/2+1)
}
