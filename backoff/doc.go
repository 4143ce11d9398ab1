// Package backoff decides when a failed step may be retried. A key's wait doubles with each failure, up to a maximum.
// A key without failures for long enough starts again with the shortest wait. A program that retries work for many
// keys imports it, and passes the time.
//
// The package is pure: the time is an argument, nothing sleeps, and nothing is started. [Backoff.Check]
// reports whether a key must wait, [Backoff.Advance] records a failure, [Backoff.Forget] drops a key, and
// [Backoff.Collect] drops all stale keys.
//
// The defaults are a kubelet's for the restart of containers: the first retry is immediate, then
// the waits are 10 s, 20 s, 40 s and so on, up to 300 s.
//
// # Clocks
//
// Pass the times that time.Now returns: they have a monotonic reading, so a wall clock step has no effect. Times
// without a monotonic reading, from a file or a runtime, are safe, too: a wait is never longer than the key's delay,
// and ends if the clock was set back. Any clock step therefore moves the next retry by one delay at most (kubernetes
// #134153).
package backoff
