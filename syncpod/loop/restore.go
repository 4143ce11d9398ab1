package loop

import (
	"context"
	"errors"
	"time"

	"github.com/podsync/podsync/syncpod"
)

// A disk that cannot be read at once is asked again, ever more rarely, for as long as
// restoreTimeout. Nothing is done meanwhile: whoever does not know which pods are over
// runs them again (kubernetes #105527).
const (
	restoreTimeout  = time.Minute
	firstRestoreTry = 100 * time.Millisecond
	lastRestoreTry  = time.Second
)

// restore reads what an earlier agent has reported, and of which pods it has kept
// records.
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
		l.config.Log.Error(err, "what was remembered of pods cannot be read")
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// tryRestore takes over what can be read; doing so twice makes no difference. It tells
// apart what is lost for good and what may be read later.
func (l *Loop) tryRestore(ctx context.Context) (lost, err error) {
	statuses, err := l.config.Store.Load(ctx)
	if errors.Is(err, syncpod.ErrRecordLost) {
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
