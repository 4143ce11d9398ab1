package lines_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/podsync/podsync/runtime/foreign/lines"
)

type stringer string

func (s stringer) String() string { return string(s) }

type unhashable struct{ list []string }

// A rawSink prints values as a log does that quotes nothing.
type rawSink struct{ line *string }

func (rawSink) Init(logr.RuntimeInfo)              {}
func (rawSink) Enabled(int) bool                   { return true }
func (s rawSink) Info(_ int, msg string, v ...any) { *s.line = fmt.Sprintf("%s %+v", msg, v) }
func (s rawSink) Error(err error, msg string, v ...any) {
	*s.line = fmt.Sprintf("%v %s %+v", err, msg, v)
}
func (s rawSink) WithValues(...any) logr.LogSink { return s }
func (s rawSink) WithName(string) logr.LogSink   { return s }

// A valueSink keeps the value of a line.
type valueSink struct{ value *any }

func (valueSink) Init(logr.RuntimeInfo)            {}
func (valueSink) Enabled(int) bool                 { return true }
func (s valueSink) Info(_ int, _ string, v ...any) { *s.value = v[1] }
func (s valueSink) Error(error, string, ...any)    {}
func (s valueSink) WithValues(...any) logr.LogSink { return s }
func (s valueSink) WithName(string) logr.LogSink   { return s }

func TestLinesAreBounded(t *testing.T) {
	var line string
	log := lines.Bound(funcr.New(func(_, l string) { line = l }, funcr.Options{LogCaller: funcr.All}))
	long := strings.Repeat("x", 1<<20)
	write := map[string]func(logr.Logger){
		"message":  func(l logr.Logger) { l.Info(long) },
		"error":    func(l logr.Logger) { l.Error(fmt.Errorf("%s: %w", long, fs.ErrNotExist), "failed") },
		"no error": func(l logr.Logger) { l.Error(nil, long) },
		"value":    func(l logr.Logger) { l.Info("m", "s", long) },
		"err":      func(l logr.Logger) { l.V(0).Info("m", "err", errors.New(long)) },
		"nil":      func(l logr.Logger) { l.Info(long, "url", (*url.URL)(nil)) },
		"stringer": func(l logr.Logger) { l.Info("m", "s", stringer(long)) },
		"values": func(l logr.Logger) {
			l.WithValues("v", long).WithName("n").Info("m", "list", unhashable{[]string{"a"}})
		},
	}
	for name, f := range write {
		if f(log); len(line) < 1000 || len(line) > 17<<10 || !strings.Contains(line, "lines_test.go") {
			t.Errorf("%s: a line of %d bytes: %.200s", name, len(line), line)
		}
	}
	for name, value := range map[string]any{
		"list": []string{"a\x1b[2J"}, "own type": unhashable{[]string{"\u202e"}}, "pointer": &unhashable{[]string{"\u009b"}}, "map": map[string]any{"\x07": 1}, "error": errors.New("\x1b]0;"),
		"bytes in text": stringer("\xff\x9b"),
	} {
		var raw string
		lines.Bound(logr.New(rawSink{&raw})).Info("m", "value", value)
		if strings.ContainsAny(raw, "\x1b\x07\u202e\u009b") || !utf8.ValidString(raw) || !strings.Contains(raw, `\`) {
			t.Errorf("%s: %q", name, raw)
		}
	}
	for _, harmless := range []any{7, []string{"a", "b"}, nil, true} {
		var got any
		lines.Bound(logr.New(valueSink{&got})).Info("m", "value", harmless)
		if !reflect.DeepEqual(got, harmless) {
			t.Errorf("%v became %v", harmless, got)
		}
	}
	for _, harmless := range []string{"a\n\tb", "größer"} {
		var plain string
		funcr.New(func(_, l string) { plain = l }, funcr.Options{LogCaller: funcr.None}).Info(harmless, "v", harmless)
		lines.Bound(funcr.New(func(_, l string) { line = l }, funcr.Options{})).Info(harmless, "v", harmless)
		if line != plain {
			t.Errorf("%s became %s", plain, line)
		}
	}
	if lines.Bound(lines.Bound(log)) != lines.Bound(log) || lines.Bound(logr.Discard()) != logr.Discard() {
		t.Error("a bounded logger is bounded again")
	}
}
