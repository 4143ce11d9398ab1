package lines_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/podsync/podsync/runtime/foreign/lines"
)

type stringer string

func (s stringer) String() string { return string(s) }

type unhashable struct{ list []string }

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
		if f(log); len(line) < 1000 || len(line) > lines.Max+1000 || !strings.Contains(line, "lines_test.go") {
			t.Errorf("%s: a line of %d bytes: %.200s", name, len(line), line)
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
