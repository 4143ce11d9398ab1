package pleg

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lists holds the state for listing all pods, and when to list next. The Watcher's mu guards it.
type lists struct {
	// reading means that a list is in progress, since began. Otherwise began and ended are the last
	// list's times.
	reading      bool
	began, ended time.Time
	// wanted means that a list is requested now.
	wanted bool
	// succeeded is the time when the last successful list began.
	succeeded time.Time
	// err is the last list's error, since the failures began, and failures their number in a row.
	err      error
	since    time.Time
	failures int
	// interval is the pause before the next list while no events are streamed.
	interval time.Duration
}

func (l *lists) fail(began time.Time, err error) {
	if l.failures == 0 {
		l.since = began
	}
	l.reading, l.ended, l.err = false, time.Now(), err
	l.failures++
}

func (l *lists) succeed(began time.Time, interval time.Duration) {
	l.reading, l.ended, l.err, l.failures, l.since = false, time.Now(), nil, 0, time.Time{}
	l.succeeded, l.interval = began, interval
}

// nextInterval returns the pause before the next list while no events are streamed. listSoon shortens it if the
// inspections after this list find a change. It requires mu to be held.
func (w *Watcher) nextInterval(busy bool) time.Duration {
	last := w.lists.interval
	switch {
	case last < busyRelist:
		return min(2*last, busyRelist)
	case busy:
		return busyRelist
	}
	return min(last+last/4, quietRelist)
}

// busy reports whether any pod is in transition. It is only used while no events are streamed.
func (w *Watcher) busy() bool {
	for _, uid := range w.knownPods() {
		if w.config.Busy(uid) {
			return true
		}
	}
	return false
}

// knownPods returns the known pods, or none while events are streamed.
func (w *Watcher) knownPods() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streaming() {
		return nil
	}
	return slices.Sorted(maps.Keys(w.pods))
}

// listSoon shortens the pause between lists after a change, because further changes are likely. It
// requires mu to be held.
func (w *Watcher) listSoon() {
	if w.streaming() || w.lists.interval == minRelist {
		return
	}
	w.lists.interval = minRelist
	w.wakeLister()
}

// wantList requests a list as soon as the last one's cost allows it. It requires mu
// to be held.
func (w *Watcher) wantList() {
	w.lists.wanted = true
	w.wakeLister()
}

// awaitNextList waits until the next list is due.
func (w *Watcher) awaitNextList(ctx context.Context) {
	for {
		wait := w.untilList()
		if wait <= 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.wakeup:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (w *Watcher) untilList() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.nextList())
}

// nextList returns when to list next. It requires mu to be held.
func (w *Watcher) nextList() time.Time {
	l := &w.lists
	if l.failures > 0 {
		return l.ended.Add(retryPause(l.failures - 1))
	}
	affordable := l.ended.Add(listPauseFactor * l.ended.Sub(l.began))
	next := l.ended.Add(l.interval)
	switch s := w.stream; {
	case l.wanted:
		return affordable
	case s == nil || !s.open:
	case s.settled:
		next = l.began.Add(w.config.EventRelist)
	case !s.flapping || s.opened.Add(settleTime).Before(next):
		next = s.opened.Add(settleTime)
	}
	if next.Before(affordable) {
		return affordable
	}
	return next
}
