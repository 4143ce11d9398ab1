package server

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
)

const (
	// lineInterval is the time between two lines from a user about the same
	// event.
	lineInterval = 10 * time.Second
	// maxLineKeys is how many users and events have their own lines in an interval. All others
	// share one line.
	maxLineKeys = 1024
)

// A lineKey is a user event. Peers that are not authenticated have the empty name.
type lineKey struct{ user, event string }

// lines limits the log lines that requests cause, and counts those that are dropped.
type lines struct {
	mu    sync.Mutex
	noted map[lineKey]*noted
}

type noted struct {
	at      time.Time // of the last line
	leftOut int       // since then
}

// next reports whether a line may be written now, and how many were left out before it.
func (l *lines) next(key lineKey, now time.Time) (leftOut int, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.noted[key]
	if n == nil && len(l.noted) >= maxLineKeys {
		for k, old := range l.noted {
			if now.Sub(old.at) >= lineInterval {
				delete(l.noted, k)
			}
		}
		if len(l.noted) >= maxLineKeys {
			key = lineKey{}
			n = l.noted[key]
		}
	}
	if n == nil {
		n = &noted{at: now.Add(-lineInterval)}
		if l.noted == nil {
			l.noted = map[lineKey]*noted{}
		}
		l.noted[key] = n
	}
	if now.Sub(n.at) < lineInterval {
		n.leftOut++
		return 0, false
	}
	leftOut, n.at, n.leftOut = n.leftOut, now, 0
	return leftOut, true
}

// line returns the logger for a line about a user event. It is silent if the user had a line about this event a
// short time ago. The line has the number of omitted lines.
func (s *streamer) line(user, event string) logr.Logger {
	leftOut, write := s.lines.next(lineKey{user, event}, time.Now())
	switch {
	case !write:
		return logr.Discard()
	case leftOut > 0:
		return s.log.WithValues("leftOut", leftOut)
	}
	return s.log
}

// note writes the line of a request that shows more than the node's state. Its path is escaped.
func (s *Server) note(r *http.Request) {
	user := callerOf(r)
	s.line(user.Name, r.Pattern).Info("Request is answered", append(userValues(r, user), "method", r.Method, "path", r.URL.EscapedPath())...)
}

// userValues returns the values of log lines that name a request's user.
func userValues(r *http.Request, user User) []any {
	return []any{"user", oneLine(user.Name), "uid", oneLine(user.UID), "address", r.RemoteAddr}
}

// oneLine quotes a name that has control characters. Some logs print the lines of a value below each other, so a user
// with a line break in the name could forge lines about other users.
func oneLine(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
