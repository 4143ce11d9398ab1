package backoff

import (
	"cmp"
	"fmt"
	"time"
)

// Config's defaults.
const (
	DefaultInitial = 10 * time.Second
	DefaultMax     = 300 * time.Second
)

// Config has the lengths of the waits. The zero Config has a kubelet's.
type Config[K comparable] struct {
	// Initial is the wait after the second failure; each further one doubles it.
	// Zero means DefaultInitial.
	Initial time.Duration
	// Max is the longest wait. Zero means DefaultMax. It must not be shorter than Initial; if
	// Initial is zero, it is Max at most.
	Max time.Duration
	// WaitFirst makes the first failure wait Initial, the second twice that, and so on. By default
	// the first retry is immediate.
	WaitFirst bool
}

// Backoff holds the state of all keys. It must not be used concurrently. The
// zero Backoff has no keys and the zero Config.
type Backoff[K comparable] struct {
	config  Config[K]
	entries map[K]entry
}

// entry is one key's state.
type entry struct {
	// failures is how many failures there were since the key was last
	// forgotten.
	failures int
	// failedAt is the time of the Advance for the last failure, by the caller's clock.
	failedAt time.Time
	// failure is the time of the last failure by the clock that recorded it, such as the runtime's: two
	// reports with the same time are one failure.
	failure time.Time
	// delay is the wait after the last failure.
	delay time.Duration
}

// New returns a Backoff with no keys. The error names the invalid field.
func New[K comparable](c Config[K]) (*Backoff[K], error) {
	switch {
	case c.Initial < 0:
		return nil, fmt.Errorf("backoff: Config.Initial is %v, want 0 or more", c.Initial)
	case c.Max < 0:
		return nil, fmt.Errorf("backoff: Config.Max is %v, want 0 or more", c.Max)
	}
	if c.longest() < c.Initial {
		return nil, fmt.Errorf("backoff: Config.Max is %v, shorter than Initial, %v", c.longest(), c.Initial)
	}
	return &Backoff[K]{config: c}, nil
}

func (c Config[K]) longest() time.Duration { return cmp.Or(c.Max, DefaultMax) }

// Check reports whether the key must wait at now, and until when. until is zero if the key need not
// wait. Check changes nothing.
func (b *Backoff[K]) Check(key K, now time.Time) (until time.Time, wait bool) {
	return b.entries[key].check(now)
}

// check reports whether the key must wait at now, and until when.
func (e entry) check(now time.Time) (until time.Time, wait bool) {
	until = e.failedAt.Add(e.delay)
	if now.Before(e.failedAt) || !now.Before(until) {
		return time.Time{}, false
	}
	return until, true
}

// Advance records a failure of the key at now, and returns the wait's end: now if the key need not wait. The
// wait begins at at, the time of the failure by the clock that recorded it, such as the finish time of a
// container; the zero time means now. A failure with the same at as the last one changes nothing, so the caller
// may report a failure each time it reads a status.
func (b *Backoff[K]) Advance(key K, now, at time.Time) (until time.Time) {
	e, news := b.after(key, now, at)
	if !news {
		if until, wait := e.check(now); wait {
			return until
		}
		return now
	}
	if b.entries == nil {
		b.entries = map[K]entry{}
	}
	b.entries[key] = e
	return e.failedAt.Add(e.delay)
}

// Preview returns the result that Check would return after Advance with the same arguments. It changes
// nothing.
func (b *Backoff[K]) Preview(key K, now, at time.Time) (until time.Time, wait bool) {
	e, _ := b.after(key, now, at)
	return e.check(now)
}

// after returns a key's state after a failure, and whether the failure is new.
func (b *Backoff[K]) after(key K, now, at time.Time) (e entry, news bool) {
	e, ok := b.entries[key]
	if !at.IsZero() && at.Equal(e.failure) {
		return e, false
	}
	running, waits := e.check(now)
	if !ok || b.stale(e, now) {
		e = entry{}
	}
	e.failures++
	e.delay = b.delay(e.failures)
	e.failure = at
	e.failedAt = now.Add(-e.age(now, at))
	if waits && running.After(e.failedAt.Add(e.delay)) {
		e.failedAt = running.Add(-e.delay) // a failure that is reported late ends no wait
	}
	return e, true
}

// age returns how much delay has passed at now, for a failure at at.
func (e entry) age(now, at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return min(max(now.Sub(at), 0), e.delay)
}

// stale reports whether twice the longest wait has passed since the key's last wait: a failure now is
// not related to the failures before.
func (b *Backoff[K]) stale(e entry, now time.Time) bool {
	return now.Sub(e.failedAt.Add(e.delay))/2 > b.config.longest()
}

// delay returns the wait after some failures.
func (b *Backoff[K]) delay(failures int) time.Duration {
	doublings := failures - 1
	if !b.config.WaitFirst {
		doublings--
	}
	if doublings < 0 {
		return 0
	}
	delay, longest := cmp.Or(b.config.Initial, DefaultInitial), b.config.longest()
	for range doublings {
		if delay > longest/2 {
			return longest
		}
		delay *= 2
	}
	return min(delay, longest)
}

// State is one key's state. A program can store it, and restore it in another Backoff, so that a wait
// continues there.
type State struct {
	// Failures counts the failures that matter.
	Failures int
	// FailedAt is the time of the last one by the caller's clock, from which the wait counts.
	FailedAt time.Time
	// Failure is the time of the last one by the clock that recorded it, zero if that is not known.
	Failure time.Time
}

// State returns a key's state. The result is false if the key has none.
func (b *Backoff[K]) State(key K) (State, bool) {
	e, ok := b.entries[key]
	return State{Failures: e.failures, FailedAt: e.failedAt, Failure: e.failure}, ok
}

// mostFailures limits a restored key's failures. All later waits are the longest.
const mostFailures = 64

// Restore replaces a key's state. The wait follows from the number of failures and from this Backoff's
// Config. A State without a failure forgets the key.
func (b *Backoff[K]) Restore(key K, s State) {
	if s.Failures <= 0 {
		b.Forget(key)
		return
	}
	e := entry{failures: min(s.Failures, mostFailures), failedAt: s.FailedAt, failure: s.Failure}
	e.delay = b.delay(e.failures)
	if b.entries == nil {
		b.entries = map[K]entry{}
	}
	b.entries[key] = e
}

// Failures returns how many failures count for the key.
func (b *Backoff[K]) Failures(key K) int { return b.entries[key].failures }

// Forget drops the key: its next failure is its first.
func (b *Backoff[K]) Forget(key K) { delete(b.entries, key) }

// Collect drops the keys whose failures no longer count at now, and returns how many keys are left.
// Call it from time to time, so that unused keys take no memory.
func (b *Backoff[K]) Collect(now time.Time) (left int) {
	for key, e := range b.entries {
		if b.stale(e, now) {
			delete(b.entries, key)
		}
	}
	return len(b.entries)
}
