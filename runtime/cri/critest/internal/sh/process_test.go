package sh

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/internal/memfs"
)

func TestBash(t *testing.T) {
	for _, tc := range []struct{ script, out string }{
		{`[[ abc == a* && ( 1 -lt 2 || x = y ) && ! -e /no && abc =~ ^a.c$ ]] && echo yes`, "yes\n"},
		{`X=a; X+=b; echo ${X^^} {1..3}; ((n = 2 + 3)); echo $n`, "AB 1 2 3\n5\n"},
		{`cat <<< "a b"; echo $'t\tt'; true |& cat; Y=X; X=1; echo ${!Y}`, "a b\nt\tt\n1\n"},
	} {
		var out bytes.Buffer
		p := New(Config{Args: []string{"/bin/bash", "-ec", tc.script}, Stdout: &out, Stderr: &out, Files: memfs.NewContainer()})
		if code := p.Run(); code != 0 || out.String() != tc.out {
			t.Errorf("%s: code %d, out %q, want %q", tc.script, code, out.String(), tc.out)
		}
	}
}

func TestPipesKeepVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		start := time.Now()
		p := New(Config{Args: []string{"sh", "-c", `{ sleep 3600; echo a; } | cat; tail -f /dev/null`}, Stdout: &out, Stderr: &out, Files: memfs.NewContainer()})
		time.AfterFunc(2*time.Hour, func() { p.Signal(SIGKILL) })
		if code := p.Run(); code != 137 || out.String() != "a\n" || time.Since(start) != 2*time.Hour {
			t.Errorf("code %d, out %q after %v", code, out.String(), time.Since(start))
		}
	})
}

func TestFiles(t *testing.T) {
	var out bytes.Buffer
	p := New(Config{Args: []string{"sh", "-c", `
		[ -e /tmp/a ] || echo none
		echo one > /tmp/a; echo two >> tmp/a; cat /tmp/a
		touch /tmp/b; [ -s /tmp/b ] || echo empty
		rm /tmp/a; cat /tmp/a 2>/dev/null || echo gone; rm -f /tmp/a; echo $?`},
		Stdout: &out, Stderr: &out, Files: memfs.NewContainer()})
	p.Run()
	if want := "none\none\ntwo\nempty\ngone\n0\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		args   []string
		init   bool
		signal Signal
		code   int
		after  time.Duration // from the signal, which is sent after 1 s
	}{
		{"a child dies of TERM", []string{"sleep", "100"}, false, SIGTERM, 143, 0},
		{"process 1 does not", []string{"sleep", "10"}, true, SIGTERM, 0, 9 * time.Second},
		{"process 1 dies of KILL", []string{"sleep", "100"}, true, SIGKILL, 137, 0},
		{"ignored", []string{"sh", "-c", "trap '' TERM; sleep 10"}, false, SIGTERM, 0, 9 * time.Second},
		{"trapped during wait", []string{"sh", "-c", "trap 'exit 7' TERM; sleep 100 & wait"}, true, SIGTERM, 7, 0},
		{"trapped during a command", []string{"sh", "-c", "trap 'exit 7' TERM; sleep 10; exit 1"}, true, SIGTERM, 7, 9 * time.Second},
		{"exec drops handlers", []string{"sh", "-c", "trap 'exit 7' TERM; exec sleep 10"}, true, SIGTERM, 0, 9 * time.Second},
		{"exec keeps what is ignored", []string{"sh", "-c", "trap '' TERM; exec sleep 10"}, false, SIGTERM, 0, 9 * time.Second},
		{"default given back", []string{"sh", "-c", "trap '' TERM; trap - TERM; sleep 10"}, false, SIGTERM, 143, 0},
		{"for ever", []string{"sleep", "infinity"}, true, SIGKILL, 137, 0},
		{"a loop", []string{"sh", "-c", "while true; do :; done"}, true, SIGKILL, 137, 0},
		{"wait ended by a handler", []string{"sh", "-c", "trap : TERM; sleep 100 & wait; exit $?"}, true, SIGTERM, 143, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(Config{Args: tc.args, Init: tc.init, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Files: memfs.NewContainer()})
				start := time.Now()
				time.AfterFunc(time.Second, func() { p.Signal(tc.signal) })
				code := p.Run()
				if code != tc.code || time.Since(start).Round(10*time.Millisecond) != time.Second+tc.after {
					t.Errorf("code %d after %v, want %d after %v", code, time.Since(start), tc.code, time.Second+tc.after)
				}
			})
		})
	}
}

func TestPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve := func(ctx context.Context, c *Call) int {
			select {
			case n := <-c.Signals:
				return int(n)
			case <-ctx.Done():
				return 1
			}
		}
		p := New(Config{Args: []string{"/srv/serve"}, Files: memfs.NewContainer(), Init: true, Programs: map[string]Program{"serve": serve}})
		if !p.Found() {
			t.Fatal("not found by its base name")
		}
		time.AfterFunc(time.Second, func() { p.Signal(SIGTERM) })
		if code := p.Run(); code != 15 {
			t.Errorf("code %d, want the program's own", code)
		}
	})
}

func TestFound(t *testing.T) {
	for name, want := range map[string]bool{
		"sleep": true, "/bin/sleep": true, "/usr/local/sleep": false, "nginx": false, "exit": false,
	} {
		if got := New(Config{Args: []string{name}, Files: memfs.NewContainer()}).Found(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestNotSupported(t *testing.T) {
	for _, tc := range []struct {
		script string
		line   string
	}{
		{"echo 'a", "line 1: "}, {"echo a\na &&", "line 2: "}, {")", "line 1: "}, {"while true; do", "line 1: "}, {"echo >", "line 1: "},
		{"echo $(id", "line 1: "}, {"echo a\n\nx=(1 2)\n", "line 3: an array"}, {"echo <(true)", "line 1: "}, {"select x in a; do :; done", "line 1: select"},
		{"declare x=1", "line 1: declare"}, {"echo ${x^^}", "line 1: this form of ${}"}, {"a |& b", "line 1: |&"}, {"((x++))", "line 1: (("},
		{"a 12>b", "line 1: the file descriptor 12"}, {"coproc a", "line 1: "}, {"time sleep 1", "line 1: time"}, {"ls @(a|b)", "line 1: "},
		{"x=1\nread -n 1 y\n", "line 2: read -n"}, {"getopts a b", "line 1: getopts"}, {"set -Z", "line 1: set: option Z"},
	} {
		var out strings.Builder
		p := New(Config{Args: []string{"sh", "-c", tc.script}, Stdout: &out, Stderr: &out, Files: memfs.NewContainer()})
		if code := p.Run(); code != 2 || !strings.Contains(out.String(), tc.line) || !strings.HasPrefix(out.String(), "sh: ") {
			t.Errorf("%q: code %d, %q, want 2, and %q in one line", tc.script, code, out.String(), tc.line)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range readStories(f) {
		f.Add(s.script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if l, err := parse(script, true); err != nil && l != nil {
			t.Error("both a list and an error")
		}
	})
}

func TestOutputOfJobsIsNotLost(t *testing.T) {
	var out syncBuffer
	p := New(Config{Args: []string{"sh", "-c", "echo a & echo b & wait; echo c"}, Stdout: &out, Stderr: &out, Files: memfs.NewContainer()})
	p.Run()
	if got := out.b.String(); len(got) != 6 || !strings.HasSuffix(got, "c\n") {
		t.Errorf("got %q, want 6 bytes that end with %q", got, "c\n")
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
