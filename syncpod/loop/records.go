package loop

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/pleg"
)

// maxRetryPause bounds the pause between two attempts to delete the records of a pod.
const maxRetryPause = time.Minute

// deleteGone deletes what is recorded of pods that are gone, once it is certain that no
// source wants them and nothing of them is left to be stopped. It returns when to try
// again what has failed, zero if there is no such thing.
func (l *Loop) deleteGone(ctx context.Context, desired desiredPods, pods []pleg.Pod) (again time.Time) {
	if !desired.complete {
		return time.Time{} // there will be news
	}
	listed := desired.uids()
	for _, p := range pods {
		if p.Running || l.config.Client != nil { // or else it stays there
			listed[p.UID] = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range l.states.uids() {
		state := l.states.get(uid)
		switch {
		case listed[uid] || l.workerPods[uid] != nil || !state.idle():
		case state.retryAt.After(time.Now()):
			again = earlier(again, state.retryAt)
		case state.outlives():
			l.setCleanup(uid, deleting)
			l.children.Go(func() { l.deleteRecords(ctx, uid, state.cleanup) })
		default:
			l.states.delete(uid)
		}
	}
	return again
}

// idle reports whether nothing goes on for a pod, so that its records may be deleted.
func (s *podState) idle() bool { return !s.cleanup.inProgress() && !s.stopping && s.calls == 0 }

// earlier returns the first of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// deleteRecords deletes what is recorded of a pod that is gone, and lets a new one with its
// UID come, if there is one by now, also if the deletion fails: it is tried again from where
// the cleanup began.
func (l *Loop) deleteRecords(ctx context.Context, uid types.UID, began cleanup) {
	err := l.tryToDelete(ctx, uid)
	if err != nil && ctx.Err() == nil {
		l.config.Log.Error(err, "a pod that is gone is not forgotten", "podUID", uid)
	}
	l.endDeletion(uid, began, err)
	if l.wants(uid) {
		l.news.raise() // it was held up
	}
	if err != nil {
		l.tidy.raise()
	}
}

func (l *Loop) endDeletion(uid types.UID, began cleanup, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.states.delete(uid)
		return
	}
	l.states.update(uid, func(s *podState) {
		s.cleanup = began
		s.putOff(l.config.HousekeepingInterval)
	})
}

// putOff puts the next attempt to delete records off, longer each time.
func (s *podState) putOff(atLeast time.Duration) {
	s.retryPause = min(max(2*s.retryPause, atLeast), maxRetryPause)
	s.recorded, s.retryAt = true, time.Now().Add(s.retryPause)
	s.status, s.undelivered = nil, false // a new pod of its UID is not to have it
}

// tryToDelete deletes the directory of a pod, which may be large, its record and its
// status. By the last two the next agent knows of it, if this one is killed meanwhile.
func (l *Loop) tryToDelete(ctx context.Context, uid types.UID) error {
	select {
	case l.deletions <- struct{}{}:
		defer func() { <-l.deletions }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := l.syncer.Forget(ctx, uid)
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, l.config.Store.Delete(ctx, uid))
}
