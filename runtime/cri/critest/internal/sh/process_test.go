package sh

import (
	"bytes"
	"context"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The tests run these scripts here and, if it is installed, in a real busybox.
var scripts = []struct {
	name, script, out string
	code              int
}{
	{"exit", `exit 3`, "", 3},
	{"exit of the last command", `false`, "", 1},
	{"exit without a number", `false; exit`, "", 1},
	{"exit is one byte", `exit 257`, "", 1},
	{"echo", `echo a  b`, "a b\n", 0},
	{"echo -n", `echo -n a`, "a", 0},
	{"quotes", `echo 'a  $X' "b  c" d\ e`, "a  $X b  c d e\n", 0},
	{"variables", `X=1; Y="$X-${X}2"; echo $Y "$?"`, "1-12 0\n", 0},
	{"and or", `true && echo a || echo b; false && echo c || echo d`, "a\nd\n", 0},
	{"status", `false; echo $?`, "1\n", 0},
	{"not found", `/no/such/program 2>/dev/null; echo $?`, "127\n", 0},
	{"if", `if [ a = b ]; then echo yes; else echo no; fi`, "no\n", 0},
	{"if without else", `if false; then echo yes; fi; echo $?`, "0\n", 0},
	{"test", `[ -n x ] && [ ! -n "" ] && test a != b && echo ok`, "ok\n", 0},
	{"while", `while [ "$X" != aa ]; do X=${X}a; echo $X; done`, "a\naa\n", 0},
	{"until", `until [ "$X" = aa ]; do X=${X}a; done; echo $X`, "aa\n", 0},
	{"subshell", `(exit 4); echo $?; X=1; (X=2); echo $X`, "4\n1\n", 0},
	{"group", `{ echo a; echo b; } && echo c`, "a\nb\nc\n", 0},
	{"sh in sh", `sh -c 'exit 5'; echo $?`, "5\n", 0},
	{"exec", `exec echo a; echo b`, "a\n", 0},
	{"printf", `printf '%s-%d\n' a 1`, "a-1\n", 0},
	{"stderr", `echo a >&2; echo b 2>&1; echo c >/dev/null`, "b\n", 0},
	{"wait", `sleep 0.2 & wait; echo done`, "done\n", 0},
	{"trap of the shell itself", `trap 'echo got; exit 6' TERM; kill -TERM $$; sleep 0.1; echo no`, "got\n", 6},
	{"trap without exit", `trap 'echo got' USR1; kill -USR1 $$; echo on`, "got\non\n", 0},
	{"comment", "echo a # b\necho c", "a\nc\n", 0},
	{"substitution", `X=$(echo a; echo "b )"); echo "<$X>" "$(exit 3)"; echo $?`, "<a\nb )> \n0\n", 0},
	{"substitution in a substitution", `echo $(echo $(echo a)b)c; echo '$(no)' "$(echo 'it is')"`, "abc\n$(no) it is\n", 0},
	{"substitution has variables of its own", `X=1; Y=$(X=2; echo $X); echo $X$Y`, "12\n", 0},
	{"integers", `[ 10 -gt 9 ] && [ 2 -ne 3 ] && [ 2 -le 2 ] && [ ! 1 -ge 2 ] && echo ok`, "ok\n", 0},
	{"expr", `expr 7 % 2; expr 7 + 2; expr 7 '*' 2; expr 7 / 2; expr 2 - 2; echo $?`, "1\n9\n14\n3\n0\n1\n", 0},
	{"double brackets", `if [[ -r /no/such/file ]]; then echo yes; else echo no; fi; [[ a = a ]] && echo a`, "no\na\n", 0},
	{"odd index", `if [ $(expr 3 % 2) -ne 0 ]; then exit 1; fi`, "", 1},
	{"exit code of a substitution", `X=$(exit 3); echo $?; X=$(false) || echo failed; X=1 && echo $?`, "3\nfailed\n0\n", 0},
	{"background in a substitution", `echo "$({ sleep 0.1; echo a; } & echo b)"`, "b\na\n", 0},
	{"trace", `sh -x -c 'echo a' 2>&1`, "+ echo a\na\n", 0},
	{"unterminated substitution", `echo $(echo a`, "", 2},
	{"syntax error", `if true; then`, "", 2},
	{"continued line", "echo a \\\n b", "a b\n", 0},
}

func TestScripts(t *testing.T) {
	for _, tc := range scripts {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			p := New(Config{Args: []string{"sh", "-c", tc.script}, Stdout: &out, Stderr: &errs, Files: newMemFiles()})
			if code := p.Run(); code != tc.code || out.String() != tc.out {
				t.Errorf("code %d, out %q, want %d, %q (stderr %q)", code, out.String(), tc.code, tc.out, errs.String())
			}
		})
	}
}

func TestScriptsMeanTheSameToBusybox(t *testing.T) {
	busybox, err := osexec.LookPath("busybox")
	if err != nil {
		t.Skip("no busybox on this machine")
	}
	for _, tc := range scripts {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := osexec.Command(busybox, "sh", "-c", tc.script)
			cmd.Env = []string{"PATH=/bin:/usr/bin"}
			cmd.Stdout = &out
			_ = cmd.Run() // a code other than 0 is an error too
			if code := cmd.ProcessState.ExitCode(); code != tc.code || out.String() != tc.out {
				t.Errorf("code %d, out %q, want %d, %q", code, out.String(), tc.code, tc.out)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	var out bytes.Buffer
	p := New(Config{Args: []string{"sh", "-c", `
		[ -e /tmp/a ] || echo none
		echo one > /tmp/a; echo two >> tmp/a; cat /tmp/a
		touch /tmp/b; [ -s /tmp/b ] || echo empty
		rm /tmp/a; cat /tmp/a 2>/dev/null || echo gone; rm -f /tmp/a; echo $?`},
		Stdout: &out, Stderr: &out, Files: newMemFiles()})
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
				p := New(Config{Args: tc.args, Init: tc.init, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Files: newMemFiles()})
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
		p := New(Config{Args: []string{"/srv/serve"}, Init: true, Programs: map[string]Program{"serve": serve}})
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
		if got := New(Config{Args: []string{name}}).Found(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestNotUnderstood(t *testing.T) {
	for _, script := range []string{
		"echo a | cat", "echo $((1 + 1))", "echo $(id", "echo `id`", "for i in a; do :; done", "echo 'a", "a &&", ")", "a && b &",
		"while true; do", "echo >", "(", "{ echo a", strings.Repeat("echo $(", 11) + strings.Repeat(")", 11),
	} {
		var errs strings.Builder
		p := New(Config{Args: []string{"sh", "-c", script}, Stdout: &errs, Stderr: &errs, Files: newMemFiles()})
		if code := p.Run(); code != 2 || !strings.HasPrefix(errs.String(), "sh: syntax error: ") {
			t.Errorf("%q: code %d, %q, want 2 and it to begin with %q", script, code, errs.String(), "sh: syntax error: ")
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tc := range scripts {
		f.Add(tc.script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if l, err := parse(script); err != nil && l != nil {
			t.Error("both a list and an error")
		}
	})
}

func TestOutputOfJobsIsNotLost(t *testing.T) {
	var out syncBuffer
	p := New(Config{Args: []string{"sh", "-c", "echo a & echo b & wait; echo c"}, Stdout: &out, Stderr: &out, Files: newMemFiles()})
	p.Run()
	if got := out.b.String(); len(got) != 6 || !strings.HasSuffix(got, "c\n") {
		t.Errorf("got %q, want 6 of them and it to end with %q", got, "c\n")
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
