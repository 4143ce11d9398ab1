package loop

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/source"
)

// Health describes problems at a moment, and since when they exist. It is a plain value.
type Health struct {
	// At is the moment.
	At time.Time
	// Runtime is the runtime's health.
	Runtime pleg.Health
	// Sources is each source's health, in Config.Sources' order.
	Sources []SourceHealth
	// Conflicts are the errors of pods that are ignored because another pod has their UID.
	Conflicts []error
	// Pods are the pods whose sync fails or takes too long, ordered by their UIDs.
	Pods []SyncFailure
	// Store is why statuses from an earlier agent are lost, nil if none are.
	Store error
}

// SourceHealth is a source's health.
type SourceHealth struct {
	Name string
	// Ready means that the source has delivered all its pods.
	Ready bool
	// Delivered is when the source last delivered, zero if it never did.
	Delivered time.Time
	// Errors and Warnings are those of the source's last Snapshot.
	Errors, Warnings []error
	// Unknown are the names of pods that an earlier agent has left and that the source does not know, as namespace/name. They
	// stay as they are, and no new pod of the source starts; see Config.StopUnknown.
	Unknown []string
	// Stopped are the names of such pods that the agent stopped when it started, because of Config.StopUnknown.
	Stopped []string
	// Failed is why the source will deliver nothing more, nil if it may. Since is when it failed.
	Failed error
	Since  time.Time
	// waits describes what a source that is not ready waits for, if that is known.
	waits string
}

// A SyncFailure is a pod whose work fails, or takes more than 10 min, beyond a stop's deadline.
type SyncFailure struct {
	UID types.UID
	// Name is namespace/name, empty if only the runtime knows the pod.
	Name string
	// Err is the error of the last sync, or of an earlier failure that backs off. Since is when the
	// errors began, or the work. A crashing container is not an error.
	Err   error
	Since time.Time
}

// Health returns the current health. It does not block, except for locks.
func (l *Loop) Health() Health {
	h := Health{At: time.Now(), Runtime: l.watcher.Health(), Sources: l.sources.health(), Conflicts: l.sources.desired().conflicts}
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	h.Store = l.storeErr
	for _, uid := range l.states.uids() {
		state := l.states.get(uid)
		failure := SyncFailure{UID: uid, Err: state.trouble(), Since: state.since}
		if state.isSlow(h.At) {
			failure.Err = errors.Join(failure.Err, fmt.Errorf("%v has not returned since %s", state.work, state.begun.UTC().Format(time.RFC3339)))
			if state.trouble() == nil {
				failure.Since = state.begun
			}
		}
		if failure.Err == nil {
			continue
		}
		if wp := l.table.pods[uid]; wp != nil {
			failure.Name = podref.Name(wp.pod)
		}
		h.Pods = append(h.Pods, failure)
	}
	return h
}

func (fs *feeds) health() (all []SourceHealth) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.all {
		all = append(all, f.health())
	}
	return all
}

func (f *feed) health() SourceHealth {
	h := SourceHealth{
		Name: f.Name(), Ready: f.ready(), Delivered: f.delivered,
		Errors: f.snapshot.Errors, Warnings: f.snapshot.Warnings, Unknown: f.trust.unknown, Stopped: f.trust.stopped, Failed: f.failed, Since: f.since,
	}
	if _, ok := f.Source.(*source.Push); ok && !h.Ready {
		h.waits = ": Set has not been called"
	}
	return h
}

// OK reports whether there is no problem. Warnings are not problems.
func (h Health) OK() bool {
	for _, s := range h.Sources {
		if !s.Ready || len(s.Errors) > 0 || len(s.Unknown) > 0 || s.Failed != nil {
			return false
		}
	}
	return h.Runtime.OK() && len(h.Conflicts) == 0 && len(h.Pods) == 0 && h.Store == nil
}

// String describes the problems, one on each line, with their duration.
func (h Health) String() string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if !h.Runtime.OK() {
		say("%v", h.Runtime)
	}
	for _, s := range h.Sources {
		s.say(h.At, say)
	}
	for _, err := range h.Conflicts {
		say("%v", err)
	}
	for _, p := range h.Pods {
		say("pod %s %s: fails for %v: %v", p.Name, p.UID, ago(h.At, p.Since), p.Err)
	}
	if h.Store != nil {
		say("store: %v", h.Store)
	}
	if len(lines) == 0 {
		return "ok"
	}
	return strings.Join(lines, "\n")
}

func (s SourceHealth) say(now time.Time, say func(string, ...any)) {
	switch {
	case s.Failed != nil:
		say("source %s: ended %v ago: %v", s.Name, ago(now, s.Since), s.Failed)
	case s.Delivered.IsZero():
		say("source %s: has not delivered yet%s", s.Name, s.waits)
	case !s.Ready:
		say("source %s: does not know all of its pods yet%s", s.Name, s.waits)
	}
	if len(s.Unknown) > 0 {
		say("source %s: knows none of the pods of an earlier agent: %s; they stay as they are, and no new pod starts", s.Name, strings.Join(s.Unknown, ", "))
	}
	for _, err := range s.Errors {
		say("source %s: %v", s.Name, err)
	}
	for _, err := range s.Warnings {
		say("source %s: warning: %v", s.Name, err)
	}
}

func ago(now, since time.Time) time.Duration { return now.Sub(since).Round(time.Millisecond) }
