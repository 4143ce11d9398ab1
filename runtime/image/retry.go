package image

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// retryKey is what a failed pull holds up: the same image for the same pod, as
// long as its credentials are the same (kubernetes #119891).
type retryKey struct {
	pod        types.UID
	image      string
	credential fingerprint
}

// retries says when a pull that failed may be tried again: after a pause that
// doubles with each failure.
type retries struct {
	first, most time.Duration

	mu      sync.Mutex
	entries map[retryKey]retry
}

type retry struct {
	pause time.Duration
	at    time.Time // when the next may begin
	cause error     // of the last failure
}

// check returns the last failure's cause and when the next pull may begin, if that is
// after now.
func (r *retries) check(key retryKey, now time.Time) (cause error, at time.Time, wait bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, failed := r.entries[key]
	return e.cause, e.at, failed && now.Before(e.at)
}

// failed notes a failure, sets when the next pull may begin, and returns that.
func (r *retries) failed(key retryKey, cause error, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune(now)
	e, again := r.entries[key]
	if again {
		e.pause = min(2*e.pause, r.most)
	} else {
		e.pause = min(r.first, r.most)
	}
	e.cause, e.at = cause, now.Add(e.pause)
	if r.entries == nil {
		r.entries = map[retryKey]retry{}
	}
	r.entries[key] = e
	return e.at
}

func (r *retries) succeeded(key retryKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, key)
}

func (r *retries) forgetPod(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.entries, func(key retryKey, _ retry) bool { return key.pod == uid })
}

// prune drops what nobody has come back for: the failures of pods that were
// never forgotten, and of credentials that have changed.
func (r *retries) prune(now time.Time) {
	maps.DeleteFunc(r.entries, func(_ retryKey, e retry) bool { return now.Sub(e.at) > 2*r.most })
}
