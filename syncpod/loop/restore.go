package loop

import (
	"context"
	"errors"
	"time"

	"github.com/podsync/podsync/syncpod/store"
)

// If the disk cannot be read, reads are retried with back-off for restoreTimeout. Nothing else happens in the
// meantime: an agent that does not know which pods have finished would run them again (kubernetes #105527).
const (
	restoreTimeout  = time.Minute
	firstRestoreTry = 100 * time.Millisecond
	lastRestoreTry  = time.Second
)

// restore reads the statuses that an earlier agent has reported, and the list of pods with records.
func (l *Loop) restore(ctx context.Context) {
	defer l.before.restored()
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	for wait := firstRestoreTry; ; wait = min(2*wait, lastRestoreTry) {
		lost, err := l.tryRestore(ctx)
		l.table.mu.Lock()
		l.storeErr = errors.Join(lost, err)
		l.table.mu.Unlock()
		if lost != nil {
			l.config.Log.Error(lost, "some statuses of pods are lost")
		}
		if err == nil {
			return
		}
		l.config.Log.Error(err, "the stored statuses of pods cannot be read")
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// tryRestore loads everything readable; loading twice makes no difference. It distinguishes data
// that is lost from data that may be readable later.
func (l *Loop) tryRestore(ctx context.Context) (lost, err error) {
	statuses, err := l.config.Store.Load(ctx)
	if errors.Is(err, store.ErrLost) {
		lost, err = err, nil
	}
	recorded, recordsErr := l.syncer.RecordedPods(ctx)
	l.before.add(statuses)
	for _, r := range statuses {
		l.states.update(r.UID, func(s *podState) {
			if r.Status.Phase != "" {
				s.status, s.undelivered = new(r.Status), true // and not all of r, for as long
			}
		})
	}
	for _, uid := range recorded {
		l.states.update(uid, func(*podState) {})
	}
	return lost, errors.Join(err, recordsErr)
}
