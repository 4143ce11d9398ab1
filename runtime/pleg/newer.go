package pleg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// UnavailableError is returned by GetNewerThan while the runtime is unavailable. It is temporary, and
// wraps the error from the list that detected that.
type UnavailableError struct {
	Since time.Time
	Err   error
}

// Error returns since when the runtime is unavailable, and the cause.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the runtime is unavailable since %s: %v", e.Since.Format(time.RFC3339), e.Err)
}

// Unwrap returns the list's error, which has a class from package cri.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Temporary returns true: the Watcher keeps listing until the runtime is available again.
func (e *UnavailableError) Temporary() bool { return true }

// GetNewerThan returns a pod's status from a read that began after since: the cached one, the one in
// flight, or a new one, which concurrent callers share. The zero since accepts any status. If since is in
// the future, it waits until then. A pod that the runtime does not have gets a status without sandboxes
// and containers. An empty uid is an error.
//
// Changed is not called for a status that GetNewerThan has returned: the caller acts on it, or inspects
// the pod again later. To read the known state only, use the Cache.
//
// GetNewerThan returns the read's error, an *UnavailableError immediately while the runtime is
// unavailable, and ctx's error when that ends. Before Run has listed the pods it waits.
func (w *Watcher) GetNewerThan(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	if uid == "" {
		return nil, errors.New("pleg: GetNewerThan: the pod's UID is empty")
	}
	if err := waitUntil(ctx, since); err != nil {
		return nil, err
	}
	status, l, err := w.statusOrInspection(uid, since)
	if l == nil {
		return status, err
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		w.endWait(uid, l, false)
		return nil, ctx.Err()
	}
	w.endWait(uid, l, l.err == nil)
	return l.status, l.err
}

// waitUntil waits for a time in the future: no read can have begun after it.
func waitUntil(ctx context.Context, t time.Time) error {
	wait := time.Until(t)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// statusOrInspection returns a status that is new enough, or the inspection to wait for. The read must have begun later
// than since: with equal times, a clock does not show which came first.
func (w *Watcher) statusOrInspection(uid types.UID, since time.Time) (*runtime.PodStatus, *inspection, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status, ok, err := w.cache.Newer(uid, since); ok && err == nil {
		return status, nil, nil
	}
	switch w.gate {
	case gateUnavailable:
		return nil, nil, w.unavailableErr
	case gateStopped:
		return nil, nil, ErrStopped
	}
	l := w.inspectionAfter(w.pod(uid), since)
	l.waiting++
	return nil, l, nil
}

// inspectionAfter returns an inspection that begins after since: the one in flight, one that only
// completes a later list with all pods, or a new one. An inspection makes the runtime walk
// through all its objects, so pods that have just been listed are not inspected again: after an
// agent restart those are all pods. It requires mu to be held.
func (w *Watcher) inspectionAfter(p *pod, since time.Time) *inspection {
	switch {
	case p.now != nil && p.now.began.After(since):
		return p.now
	case p.next != nil && p.next.listed != nil && p.next.listed.ObservedAt.After(since):
		return p.next
	}
	return w.request(p)
}

// endWait ends the wait for an inspection. If no caller has taken the result, Changed is called for
// it.
func (w *Watcher) endWait(uid types.UID, l *inspection, taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid]
	if p == nil {
		return
	}
	l.waiting--
	if taken {
		p.markReported(l.status)
	} else if l.waiting == 0 && !p.latest.Equal(p.reported) {
		p.unreported = true
		w.wake(p)
	}
	w.forget(p)
}

// markReported records that a caller has the status, so that Changed does not report it.
func (p *pod) markReported(status *runtime.PodStatus) {
	if p.reported == nil || !status.ObservedAt.Before(p.reported.ObservedAt) {
		p.reported = status
	}
}

// Inspect requests a pod inspection and does not wait for it. The caller uses it after a change
// to the pod, for example.
func (w *Watcher) Inspect(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid != "" {
		w.request(w.pod(uid))
	}
}
