package poddir

import (
	"bytes"
	"strings"
	"testing"
)

func TestLogTail(t *testing.T) {
	for _, tt := range []struct{ name, log, want string }{
		{"nothing", "", ""},
		{"an empty line", "t stdout F \n", "\n"},
		{"no end of line", "t stdout F a", "a"},
		{"other tags", "t stdout P:x a\nt stderr F:y b\n", "ab\n"},
		{"spaces", "t stdout F  a  b \n", " a  b \n"},
		{"the rest of a line", "est of it\nt stdout F a\n", "est of it\na\n"},
		{"another format", "{\"log\":\"a b c d\"}\n", "{\"log\":\"a b c d\"}\n"},
	} {
		if got := string(logTail([]byte(tt.log))); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzLogTail(f *testing.F) {
	f.Add("t stdout F a\n", uint8(3))
	f.Add("\n", uint8(200))
	f.Fuzz(func(t *testing.T, line string, n uint8) {
		log := []byte(strings.Repeat(line, int(n)))
		before := bytes.Clone(log)
		got := logTail(log)
		if len(got) > maxLogTail || bytes.Count(got, []byte("\n")) > maxLogLines || len(got) > len(log) {
			t.Errorf("%d bytes, %d lines of %d bytes", len(got), bytes.Count(got, []byte("\n")), len(log))
		}
		if !bytes.Equal(log, before) {
			t.Error("the log was written to")
		}
	})
}
