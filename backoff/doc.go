// Package backoff decides when something that failed may be tried again: for
// each key the wait doubles with every failure, up to a maximum, and is
// forgotten when no failure has followed for long enough.
//
// It is pure. Time comes in as an argument, nothing sleeps, and nothing is
// started. [Backoff.Check] asks, [Backoff.Advance] tells of a failure,
// [Backoff.Forget] drops a key and [Backoff.Collect] drops all that are stale.
//
// The defaults are those of a kubelet that restarts containers: the first try
// after a failure at once, then after 10 s, 20 s, 40 s and so on up to 300 s.
//
// # Clocks
//
// Pass times as time.Now returns them: they carry a monotonic reading, and no
// step of the wall clock is seen here at all. Times without one, from a file or
// a runtime, do no harm either: a wait is never longer than the key's delay, and
// a clock that was set back ends it, so that a step of any size moves the next
// try by one delay at most (kubernetes #134153).
package backoff
