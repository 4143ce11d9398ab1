package pleg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrNotListed means that the pods have not been listed yet, so the runtime's state is unknown.
	ErrNotListed = errors.New("pleg: the pods of the runtime were not listed yet")
	// ErrStopped means that the agent has stopped or is about to stop.
	ErrStopped = errors.New("pleg: the watcher has stopped")
)

// Health describes the problems at one time, and since when they exist. It is a plain value.
type Health struct {
	// At is the time that Health describes.
	At time.Time
	// Err is why the runtime is unavailable, nil if it is available: ErrNotListed, ErrStopped, or a
	// list's error, with a class from package cri. Since is when it last changed.
	Err   error
	Since time.Time
	// Listing is when the list that is in flight began, zero if none is in flight. A list that began
	// long ago hangs.
	Listing time.Time
	// Listed is when the last successful list began.
	Listed time.Time
	// ListErr is the last list's error, nil if it succeeded. ListFailing is since when lists
	// fail.
	ListErr     error
	ListFailing time.Time
	// Streaming is whether the agent receives events from the runtime. If not, StreamErr is the
	// reason; it is nil if the runtime has no event stream or the stream is about to begin.
	Streaming bool
	StreamErr error
	// Pods are the pods whose inspection fails or takes long, sorted by UID.
	Pods []ReadFailure
}

// A ReadFailure is a pod whose inspection fails or takes long.
type ReadFailure struct {
	UID types.UID
	// Err is the last inspection's error, nil if it succeeded; Since is when the failures
	// began.
	Err   error
	Since time.Time
	// InspectingSince is the inspection's start in flight. It is zero if none is in flight.
	InspectingSince time.Time
}

// LongInspection is how long a list, or a pod's inspection, may take before it is a problem.
const LongInspection = 5 * time.Second

// OK reports whether there is no problem: the runtime is available, lists succeed and do not hang,
// and all pods can be inspected. A missing event stream is not a problem.
func (h Health) OK() bool {
	return h.Err == nil && h.ListErr == nil && !h.listHangs() && len(h.Pods) == 0
}

func (h Health) listHangs() bool { return !h.Listing.IsZero() && h.At.Sub(h.Listing) >= LongInspection }

// String describes the problems, one a line, with their duration.
func (h Health) String() string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case h.Err != nil && h.Since.IsZero(): // no list has ended yet
		say("runtime: not available: %v", h.Err)
	case h.Err != nil:
		say("runtime: not available for %v: %v", h.ago(h.Since), h.Err)
	}
	if h.listHangs() {
		say("list: in progress for %v", h.ago(h.Listing))
	}
	if h.ListErr != nil && h.Err == nil {
		say("list: fails for %v: %v", h.ago(h.ListFailing), h.ListErr)
	}
	if h.StreamErr != nil && h.Err == nil {
		say("events: not heard: %v", h.StreamErr)
	}
	for _, p := range h.Pods {
		if p.Err != nil {
			say("pod %s: cannot be read for %v: %v", p.UID, h.ago(p.Since), p.Err)
		} else {
			say("pod %s: being read for %v", p.UID, h.ago(p.InspectingSince))
		}
	}
	if len(lines) == 0 {
		return "ok"
	}
	return strings.Join(lines, "\n")
}

func (h Health) ago(t time.Time) time.Duration { return h.At.Sub(t).Round(time.Millisecond) }

// Health returns the current health. It does not block, except for a lock.
func (w *Watcher) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := Health{
		At: time.Now(), Err: w.unavailable(), Since: w.since,
		Listed: w.lists.succeeded, ListErr: w.lists.err, ListFailing: w.lists.since,
		Streaming: w.streaming(),
	}
	if e, ok := h.Err.(*UnavailableError); ok {
		h.Err = e.Err // its text has Since, too
	}
	if w.lists.reading {
		h.Listing = w.lists.began
	}
	if w.stream != nil {
		h.StreamErr = w.stream.err
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if t := w.pods[uid].readFailure(); t.Err != nil || !t.InspectingSince.IsZero() && h.At.Sub(t.InspectingSince) >= LongInspection {
			h.Pods = append(h.Pods, t)
		}
	}
	return h
}

func (p *pod) readFailure() ReadFailure {
	t := ReadFailure{UID: p.uid, Err: p.err, Since: p.since}
	if p.now != nil {
		t.InspectingSince = p.now.began
	}
	return t
}
