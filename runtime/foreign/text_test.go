package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/podsync/podsync/runtime/foreign"
)

func TestHarmlessTextsStayAsTheyAre(t *testing.T) {
	for _, s := range []string{
		"", "not found", `exec: "/bin/app": stat /bin/app: no such file or directory: unknown`, `C:\temp\u202e and 100%`,
		"größer 日本語 👩‍👩‍👧 \ufeff\ufffd", strings.Repeat("x", foreign.Max),
	} {
		if got := foreign.Line(s); got != s {
			t.Errorf("Line(%q) = %q", s, got)
		}
	}
	if s := "a\n\tb\n"; foreign.Text(s) != s {
		t.Errorf("Text(%q) = %q", s, foreign.Text(s))
	}
}

func TestEscapes(t *testing.T) {
	for s, want := range map[string]string{
		"a\nb\tc\r\n":                `a\nb\tc\r\n`,
		"\x1b[2J\x1b]0;title\x07":    `\x1b[2J\x1b]0;title\x07`,
		"\u009b31m\u0085":            `\u009b31m\u0085`,
		"\u202eevil\u2066\u200f":     `\u202eevil\u2066\u200f`,
		"one\u2028two\u2029":         `one\u2028two\u2029`,
		"\x00\x7f":                   `\x00\x7f`,
		"broken \xff\xc3( \xed\xa0.": `broken \xff\xc3( \xed\xa0.`,
	} {
		if got := foreign.Line(s); got != want {
			t.Errorf("Line(%q) = %q, want %q", s, got, want)
		}
	}
	if got, want := foreign.Text("a\n\tb\r\x1b"), "a\n\tb\\r\\x1b"; got != want {
		t.Errorf("Text: %q, want %q", got, want)
	}
}

func TestLongTextsKeepBeginningAndEnd(t *testing.T) {
	for _, middle := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\x1b", 1<<20), strings.Repeat("日", 1<<19), strings.Repeat("\xff", foreign.Max)} {
		got := foreign.Line("begins" + middle + "ends")
		if len(got) > foreign.Max || len(got) < foreign.Max-100 {
			t.Errorf("%d bytes of %.10q", len(got), middle)
		}
		if !strings.HasPrefix(got, "begins") || !strings.HasSuffix(got, "ends") || !strings.Contains(got, "...[omitted ") {
			t.Errorf("got %.20q ... %q", got, got[len(got)-20:])
		}
		if again := foreign.Line(got); again != got {
			t.Errorf("a second call changes the text: %.20q", again)
		}
	}
	if got := foreign.Word(strings.Repeat("OOM", 1000)); len(got) > foreign.MaxWord {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[0m", 100)
	f.Add(strings.Repeat("\u202e", 2000), 64)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 64 + max(0, limit)%4096
		got := foreign.Cut(s, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\n\r\u202e\u0085\u2028") {
			t.Errorf("Cut(%q, %d) = %q", s, limit, got)
		}
		if again := foreign.Cut(got, limit); again != got {
			t.Errorf("a second call changes %q to %q", got, again)
		}
		if len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestError(t *testing.T) {
	if foreign.Error(nil) != nil {
		t.Error("nil became an error")
	}
	if short := fs.ErrNotExist; foreign.Error(short) != short {
		t.Error("a short error became another one")
	}
	long := fmt.Errorf("%s: %w: %w", strings.Repeat("x", 1<<20), &os.PathError{Op: "open", Path: strings.Repeat("y", 1<<20), Err: syscall.ENOENT}, context.Canceled)
	got := foreign.Error(fmt.Errorf("wrapped: %w", long))
	if len(got.Error()) > foreign.Max {
		t.Errorf("%d bytes", len(got.Error()))
	}
	var path *os.PathError
	if errors.As(got, &path) {
		t.Error("the long error can be found in the short one")
	}
	var number syscall.Errno
	if !errors.Is(got, fs.ErrNotExist) || !errors.Is(got, context.Canceled) || !errors.As(got, &number) || errors.Is(got, fs.ErrExist) {
		t.Errorf("%v wraps other errors than before", got)
	}
}
