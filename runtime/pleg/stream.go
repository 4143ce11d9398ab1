package pleg

import (
	"context"
	"errors"
	"time"

	"github.com/podsync/podsync/runtime/cri"
)

// A stream reads the runtime's events while the gate is open. It is an
// EventHandler. The Watcher's mu guards its fields.
type stream struct {
	w      *Watcher
	cancel context.CancelFunc
	open   bool
	opened time.Time // the last time
	// settled means that the Watcher relies on events: the stream has been open for settleTime, and a list has been read
	// since.
	settled bool
	// flapping means that the last stream ended before it had settled.
	flapping bool
	err      error // the reason why the stream is not open
}

// startStream starts the stream, if events are configured. It requires mu to be held.
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

// streaming reports whether the Watcher relies on events. It requires mu to be held.
func (w *Watcher) streaming() bool { return w.stream != nil && w.stream.settled }

// settle marks the stream as settled if a list that began at listed was late enough after the
// stream opened. It reports whether that is a change. It requires mu to be held.
func (s *stream) settle(listed time.Time) bool {
	if s == nil || !s.open || s.settled || listed.Before(s.opened.Add(settleTime)) {
		return false
	}
	s.settled, s.flapping = true, false
	return true
}

// StreamOpened requests a full list, because the stream has no earlier events.
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
	s.w.wakeLister()
}

// HandleEvent requests an inspection for the event's pod, or a full list if the pod
// is unknown.
func (s *stream) HandleEvent(e Event) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if e.PodUID != "" {
		s.w.eventSeen(s.w.pod(e.PodUID), e)
	} else if p := s.w.ownerOf(e.ContainerID); p != nil {
		s.w.eventSeen(p, e)
	} else {
		s.w.wantList()
	}
}

// StreamLost falls back to lists. The first list is immediate, because events may have been lost
// with the stream.
func (s *stream) StreamLost(err error) {
	if s.lose(err) {
		s.w.config.Log.Info("container event stream is lost, falling back to lists", "reason", err.Error())
		s.w.config.Observer.Streaming(false)
	}
}

// lose records the loss of the stream, and reports whether the Watcher relied on events.
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
	s.w.wakeLister()
	return lost
}
