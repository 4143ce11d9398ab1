package image

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/backoff"
)

// retryKey identifies a back-off: an image for one pod with one credential set (kubernetes #119891).
type retryKey struct {
	pod        types.UID
	image      string
	credential fingerprint
}

// retries records when a failed pull may be retried, and the failure's cause.
type retries struct {
	mu      sync.Mutex
	backoff *backoff.Backoff[retryKey]
	causes  map[retryKey]error // of each key's last failure in backoff
}

func newRetries(initial, longest time.Duration) (*retries, error) {
	b, err := backoff.New(backoff.Config[retryKey]{Initial: initial, Max: longest, WaitFirst: true})
	if err != nil {
		return nil, fmt.Errorf("image: Settings.InitialBackOff and MaxBackOff: %w", err)
	}
	return &retries{backoff: b, causes: map[retryKey]error{}}, nil
}

// check returns when the next pull may begin, if that is after now, and the last
// failure's cause.
func (r *retries) check(key retryKey, now time.Time) (until time.Time, wait bool, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, wait = r.backoff.Check(key, now)
	return until, wait, r.causes[key]
}

// failed records a failure and returns when the next pull may begin. It drops stale failures: those
// for pods that Forget was never called for, and for credentials that have changed.
func (r *retries) failed(key retryKey, cause error, now time.Time) (until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backoff.Collect(now)
	maps.DeleteFunc(r.causes, func(k retryKey, _ error) bool { return r.backoff.Failures(k) == 0 })
	r.causes[key] = cause
	return r.backoff.Advance(key, now, time.Time{})
}

func (r *retries) succeeded(key retryKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(key)
}

func (r *retries) forgetPod(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.causes {
		if key.pod == uid {
			r.forget(key)
		}
	}
}

// forget must be called with mu held.
func (r *retries) forget(key retryKey) {
	r.backoff.Forget(key)
	delete(r.causes, key)
}
