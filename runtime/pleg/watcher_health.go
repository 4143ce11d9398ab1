package pleg

import (
	"maps"
	"slices"
	"time"
)

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
