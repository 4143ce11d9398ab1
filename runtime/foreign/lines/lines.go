// Package lines bounds a log's lines. See [Bound].
package lines

import (
	"fmt"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/runtime/foreign"
)

// Max is the maximum length of a message, and of a value in a line, in bytes.
const Max = 16 << 10

// Bound returns a logger that writes to log. Messages, errors and values are bounded and escaped by package foreign,
// except values that implement logr.Marshaler. They keep line feeds, which a structured log quotes or indents. A list or
// struct that needs neither is not changed; any other becomes a text.
func Bound(log logr.Logger) logr.Logger {
	to := log.GetSink()
	if to == nil {
		return log
	}
	if _, bounded := to.(*sink); bounded {
		return log
	}
	if s, ok := to.(logr.CallDepthLogSink); ok { // a line names the logger's caller
		to = s.WithCallDepth(1)
	}
	return log.WithSink(&sink{to})
}

type sink struct{ logr.LogSink }

func (s *sink) Info(level int, msg string, keysAndValues ...any) {
	s.LogSink.Info(level, text(msg), bound(keysAndValues)...)
}

func (s *sink) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.Error(foreign.ErrorWith(err, text), text(msg), bound(keysAndValues)...)
}

func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	return &sink{s.LogSink.WithValues(bound(keysAndValues)...)}
}

func (s *sink) WithName(name string) logr.LogSink { return &sink{s.LogSink.WithName(name)} }

// WithCallDepth implements logr.CallDepthLogSink.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	if to, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return &sink{to.WithCallDepth(depth)}
	}
	return s
}

// GetUnderlying returns the sink to which the bounded lines are written.
func (s *sink) GetUnderlying() logr.LogSink { return s.LogSink }

func text(s string) string { return foreign.CutText(s, Max) }

// bound returns keysAndValues itself if nothing changes.
func bound(keysAndValues []any) []any {
	var changed []any
	for i, value := range keysAndValues {
		after, change := boundValue(value)
		if !change {
			continue
		}
		if changed == nil {
			changed = append(changed, keysAndValues...)
		}
		changed[i] = after
	}
	if changed == nil {
		return keysAndValues
	}
	return changed
}

func boundValue(value any) (after any, changed bool) {
	if _, ok := value.(logr.Marshaler); ok { // it chooses its own form
		return nil, false
	}
	before := fmt.Sprintf("%+v", value) // a nil pointer does not panic
	after = text(before)
	return after, after != before
}
