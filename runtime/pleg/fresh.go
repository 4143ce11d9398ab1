package pleg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// UnavailableError is returned by Fresh while the runtime is away. It is temporary, and
// wraps the error of the list that found the runtime away.
type UnavailableError struct {
	Since time.Time
	Err   error
}

// Error says since when the runtime is away, and why.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the runtime is away since %s: %v", e.Since.Format(time.RFC3339), e.Err)
}

// Unwrap returns the error of the list, which has a class of package cri.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Temporary returns true: the Watcher looks whether the runtime is back.
func (e *UnavailableError) Temporary() bool { return true }

// Fresh returns the status of a pod from a read that began after since: the one in
// the cache, the one in flight, or one that is made right now, which several
// callers share. The zero since asks for any status. If since is in the future, it waits
// until then. A pod that the runtime does not know has a status without sandboxes and
// containers. An empty uid is an error.
//
// What Fresh returns counts as told: Changed is not called for it. Who calls it
// acts on the status, or looks again later. For a mere look at what is known there
// is the Cache.
//
// Fresh returns the error of the read if that fails, an *UnavailableError at once while
// the runtime is away, and the error of ctx when that ends. Before Run has listed
// the pods it waits.
func (w *Watcher) Fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	if uid == "" {
		return nil, errors.New("pleg: Fresh: the pod's UID is empty")
	}
	if err := waitUntil(ctx, since); err != nil {
		return nil, err
	}
	status, l, err := w.fresh(uid, since)
	if l == nil {
		return status, err
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		w.leave(uid, l, false)
		return nil, ctx.Err()
	}
	w.leave(uid, l, l.err == nil)
	return l.status, l.err
}

// waitUntil waits for a time that lies ahead: no read can have begun after it.
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

// fresh returns a status that is new enough, or the look to wait for. A clock may
// give since and the beginning of a read the same time though the read began
// first, so that only a later time will do.
func (w *Watcher) fresh(uid types.UID, since time.Time) (*runtime.PodStatus, *look, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status, ok, err := w.cache.Newer(uid, since.Add(1)); ok && err == nil {
		return status, nil, nil
	}
	switch w.gate {
	case gateAway:
		return nil, nil, w.away
	case gateStopped:
		return nil, nil, ErrStopped
	}
	l := w.lookAfter(w.pod(uid), since)
	l.waiting++
	return nil, l, nil
}

// lookAfter returns a look that begins after since: the one in flight, one that only completes
// what a list of all pods has shown after it, or one that is asked for now. To ask for a pod
// costs the runtime a walk through all that it has, so nobody does for what was listed just
// now: after a restart of the agent that are all pods at once. It must be called with mu
// held.
func (w *Watcher) lookAfter(p *pod, since time.Time) *look {
	switch {
	case p.now != nil && p.now.began.After(since):
		return p.now
	case p.next != nil && p.next.listed != nil && p.next.listed.ObservedAt.After(since):
		return p.next
	}
	return w.ask(p)
}

// leave ends the wait for a look. If nobody has taken what it brought, that is
// still to be told.
func (w *Watcher) leave(uid types.UID, l *look, taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid]
	if p == nil {
		return
	}
	l.waiting--
	if taken {
		p.take(l.status)
	} else if l.waiting == 0 && !p.latest.Equal(p.told) {
		p.untold = true
		w.wake(p)
	}
	w.forget(p)
}

// take notes that someone knows the status.
func (p *pod) take(status *runtime.PodStatus) {
	if p.told == nil || !status.ObservedAt.Before(p.told.ObservedAt) {
		p.told = status
	}
}

// Look has a pod looked at from now on, without waiting for it: after something
// was done to it, for example.
func (w *Watcher) Look(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid != "" {
		w.ask(w.pod(uid))
	}
}
