package watch

import (
	"context"
	"errors"
	"time"

	"github.com/podsync/podsync/runtime/cri"
)

// A stream reads the runtime's events while the gate is open. It is a
// EventHandler. Its fields are guarded by the Watcher's mu.
type stream struct {
	w      *Watcher
	cancel context.CancelFunc
	open   bool
	opened time.Time // the last time
	// settled: it has been open for so long, and a list was read since, that events
	// are relied on.
	settled bool
	// flapping: it ended before it had settled the last time.
	flapping bool
	err      error // why it is not open
}

// startStream must be called with mu held.
func (w *Watcher) startStream() {
	if w.config.Events == nil {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	s := &stream{w: w, cancel: cancel}
	w.stream = s
	events, err := NewEvents(EventsConfig{
		Runtime: w.config.Events, Handler: s, Owner: w.config.Owner, Log: w.config.Log,
	})
	if err != nil {
		cancel()
		s.err = err
		return
	}
	w.tasks.Go(func() {
		defer cancel()
		if err := events.Run(ctx); errors.Is(err, cri.ErrUnimplemented) {
			s.StreamLost(err)
		}
	})
}

// streaming reports whether events are relied on. It must be called with mu held.
func (w *Watcher) streaming() bool { return w.stream != nil && w.stream.settled }

// settle has events relied on from now on, if a list that began at listed came late
// enough after the stream was opened. It reports whether that is new. It must be
// called with mu held.
func (s *stream) settle(listed time.Time) bool {
	if s == nil || !s.open || s.settled || listed.Before(s.opened.Add(settleTime)) {
		return false
	}
	s.settled, s.flapping = true, false
	return true
}

// StreamOpened has all pods listed, for what happened before.
func (s *stream) StreamOpened() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.stream != s {
		return
	}
	s.open, s.opened, s.err = true, time.Now(), nil
	if !s.flapping {
		s.w.wantList()
	}
	s.w.nudge()
}

// HandleEvent has the pod looked at that the event is about, or all of them if the
// event does not say.
func (s *stream) HandleEvent(e Event) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if e.PodUID != "" {
		s.w.hear(s.w.pod(e.PodUID), e)
	} else if p := s.w.ownerOf(e.ContainerID); p != nil {
		s.w.hear(p, e)
	} else {
		s.w.wantList()
	}
}

// StreamLost falls back on lists, the first one at once: events may have been lost
// with the stream.
func (s *stream) StreamLost(err error) {
	if s.lose(err) {
		s.w.config.Log.Info("container events are not heard any more", "reason", err.Error())
		s.w.config.Observer.Streaming(false)
	}
}

// lose reports whether events were relied on.
func (s *stream) lose(err error) bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.stream != s {
		return false
	}
	lost := s.settled
	s.open, s.settled, s.flapping, s.err = false, false, !lost, err
	if lost {
		s.w.lists.interval = minRelist
		s.w.wantList()
	}
	s.w.nudge()
	return lost
}
