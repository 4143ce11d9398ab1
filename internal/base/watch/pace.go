package watch

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lists is the state of the lists of all pods, and when the next one is due. The Watcher's mu
// guards it.
type lists struct {
	// reading: a list is being read, since began. Otherwise began and ended are
	// those of the last one.
	reading      bool
	began, ended time.Time
	// wanted: there is reason to read a list now.
	wanted bool
	// succeeded is when the last list began that succeeded.
	succeeded time.Time
	// err is why the last list failed, and since when how many in a row have.
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

// pace returns the pause before the next list while no events are streamed, if the
// looks that follow from this one find nothing new; see stir. It must be called
// with mu held.
func (w *Watcher) pace(busy bool) time.Duration {
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
	for _, uid := range w.watched() {
		if w.config.Busy(uid) {
			return true
		}
	}
	return false
}

// watched returns the pods that there are, or none while events are streamed.
func (w *Watcher) watched() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streaming() {
		return nil
	}
	return slices.Sorted(maps.Keys(w.pods))
}

// stir has lists read quickly, for where one thing has changed others will. It
// must be called with mu held.
func (w *Watcher) stir() {
	if w.streaming() || w.lists.interval == minRelist {
		return
	}
	w.lists.interval = minRelist
	w.nudge()
}

// wantList has a list read as soon as the cost of the last one allows. It must be
// called with mu held.
func (w *Watcher) wantList() {
	w.lists.wanted = true
	w.nudge()
}

// rest waits until the next list is due.
func (w *Watcher) rest(ctx context.Context) {
	for {
		wait := w.untilList()
		if wait <= 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.kick:
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

// nextList must be called with mu held.
func (w *Watcher) nextList() time.Time {
	l := &w.lists
	if l.failures > 0 {
		return l.ended.Add(retryPause(l.failures - 1))
	}
	affordable := l.ended.Add(listCost * l.ended.Sub(l.began))
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
