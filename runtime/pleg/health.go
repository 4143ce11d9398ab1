package pleg

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Health describes problems at a moment, and since when they exist. It is a plain value.
type Health struct {
	// At is the moment.
	At time.Time
	// Err is why the runtime is unavailable, nil if it is available; Since is the time of the last
	// change. See Watcher.Available.
	Err   error
	Since time.Time
	// Listing is when the list began that is being read, zero if none is. An old
	// one hangs.
	Listing time.Time
	// Listed is when the last list began that succeeded.
	Listed time.Time
	// ListErr is why lists fail, nil if they do not, and ListFailing since when.
	ListErr     error
	ListFailing time.Time
	// Streaming: events are heard. Otherwise StreamErr is why not, nil if there is
	// no stream or it is about to begin.
	Streaming bool
	StreamErr error
	// Pods are the pods whose inspection fails or takes long, sorted by UID.
	Pods []ReadFailure
}

// A ReadFailure is a pod whose inspection fails or takes long.
type ReadFailure struct {
	UID types.UID
	// Err is the error of the last inspection, nil if it succeeded; Since is when the failures
	// began.
	Err   error
	Since time.Time
	// InspectingSince is the start of the inspection in flight. It is zero if none is in flight.
	InspectingSince time.Time
}

// Health returns the current health. It does not block, except for a lock.
func (w *Watcher) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := Health{
		At: time.Now(), Err: w.unavailable(), Since: w.since,
		Listed: w.lists.succeeded, ListErr: w.lists.err, ListFailing: w.lists.since,
		Streaming: w.streaming(),
	}
	if w.lists.reading {
		h.Listing = w.lists.began
	}
	if w.stream != nil {
		h.StreamErr = w.stream.err
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if t := w.pods[uid].readFailure(); t.Err != nil || !t.InspectingSince.IsZero() && h.At.Sub(t.InspectingSince) >= longLook {
			h.Pods = append(h.Pods, t)
		}
	}
	return h
}

// longLook is how long an inspection may take before Health reports it.
const longLook = 5 * time.Second

func (p *pod) readFailure() ReadFailure {
	t := ReadFailure{UID: p.uid, Err: p.err, Since: p.since}
	if p.now != nil {
		t.InspectingSince = p.now.began
	}
	return t
}

// OK reports whether there is no problem: the runtime is available, lists succeed and do not hang,
// and all pods can be read. A missing event stream is not a problem.
func (h Health) OK() bool {
	return h.Err == nil && h.ListErr == nil && !h.listHangs() && len(h.Pods) == 0
}

func (h Health) listHangs() bool { return !h.Listing.IsZero() && h.At.Sub(h.Listing) >= longLook }

// String describes the problems, one on each line, with their duration.
func (h Health) String() string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case h.Err != nil && h.Since.IsZero(): // there was no list yet
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
