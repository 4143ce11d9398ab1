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

	"github.com/podsync/podsync/runtime/cri/critest/internal/memfs"
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
	{"function", `f() { exit 9; }; echo a; f; echo b`, "a\n", 9},
	{"function with parameters", `f() { echo "$# $1 $2"; return 4; }; f a "b c"; echo $?; g() (X=1); X=2; g; echo $X`, "2 a b c\n4\n2\n", 0},
	{"local", `X=1; f() { local X=2 Y; echo $X; }; f; echo $X`, "2\n1\n", 0},
	{"errexit", `set -e; false; echo no`, "", 1},
	{"errexit in conditions", `set -e; if false; then :; fi; false || echo a; ! true; false && echo no; while false; do :; done; echo b`, "a\nb\n", 0},
	{"errexit in a function", `set -e; f() { false; echo no; }; f; echo no`, "", 1},
	{"errexit in a condition's function", `set -e; f() { false; echo yes; }; if f; then echo a; fi`, "yes\na\n", 0},
	{"errexit of a substitution", `set -e; X=$(false); echo no`, "", 1},
	{"errexit of a pipeline", `set -e; false | true; echo a; true | false; echo no`, "a\n", 1},
	{"nounset", `set -u; echo a; echo $NOTHING; echo no`, "a\n", 2},
	{"nounset with a default", `set -u; echo ${NOTHING:-d}`, "d\n", 0},
	{"pipefail", `set -o pipefail; false | true; echo $?; set +o pipefail; false | true; echo $?`, "1\n0\n", 0},
	{"set -ex", `sh -exc 'true; false; echo no' 2>&1; echo $?`, "+ true\n+ false\n1\n", 0},
	{"not", `! true; echo $?; ! false; echo $?; ! [ a = b ] && echo c`, "1\n0\nc\n", 0},
	{"while not", `i=0; while ! [ $i = 3 ]; do i=$((i+1)); done; echo $i`, "3\n", 0},
	{"defaults", `echo ${X:-d} ${X-e} ${X:+f}; X=; echo "${X:-d}" "${X-e}" "${X+g}"; echo ${Y:=h} $Y`, "d e\nd  g\nh h\n", 0},
	{"a required variable", `echo ${X:?is missing}; echo no`, "", 2},
	{"prefixes and suffixes", `F=/a/b.tar.gz; echo ${F##*/} ${F%.*} ${F%%.*} ${F#/a} ${#F} ${F#'*'}`, "b.tar.gz /a/b.tar /a/b /b.tar.gz 11 /a/b.tar.gz\n", 0},
	{"substrings", `X=hello; echo ${X:1:3} ${X:2} ${X/l/L} ${X//l/L}`, "ell llo heLlo heLLo\n", 0},
	{"parameters", `sh -c 'echo $0 $1 $# "$@"; shift; echo "$1"; set -- x y; echo $*' name a "b  c"`, "name a 2 a b  c\nb  c\nx y\n", 0},
	{"parameters in a loop", `set -- a "b c"; for X; do echo "<$X>"; done; for X in "$@" d; do echo $X; done`, "<a>\n<b c>\na\nb c\nd\n", 0},
	{"break", `for i in 1 2 3; do [ $i = 2 ] && break; echo $i; done; echo end`, "1\nend\n", 0},
	{"continue", `for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done`, "1\n3\n", 0},
	{"break 2", `while true; do for i in 1 2; do break 2; done; echo no; done; echo end`, "end\n", 0},
	{"until with break", `i=0; until false; do i=$((i+1)); if [ $i -ge 4 ]; then break; fi; done; echo $i`, "4\n", 0},
	{"return", `f() { for i in 1 2; do return 3; done; echo no; }; f; echo $?`, "3\n", 0},
	{"read", `echo "a b  c" | { read x y; echo "$y|$x"; }; printf 'a\\n' | { read -r x; echo $x; }; read z < /dev/null; echo $?`, "b  c|a\na\\n\n1\n", 0},
	{"read lines", `printf 'a\nb\n' | while read l; do echo "<$l>"; done`, "<a>\n<b>\n", 0},
	{"read with IFS", `echo a:b:c | { IFS=: read x y z; echo $z $y $x; }`, "c b a\n", 0},
	{"a loop with input", `echo x > /tmp/in; echo y >> /tmp/in; while read l; do echo $l; done < /tmp/in; rm /tmp/in`, "x\ny\n", 0},
	{"cd", `cd /tmp && pwd; cd /no/such 2>/dev/null || echo failed; cd / && echo $PWD; cd - >/dev/null; pwd`, "/tmp\nfailed\n/\n/tmp\n", 0},
	{"case", `for x in ab b '*' c; do case $x in a*) echo A;; b|d) echo B;; '*') echo S;; *) echo E;; esac; done`, "A\nB\nS\nE\n", 0},
	{"case without a match", `case x in y) echo no;; esac; echo $?`, "0\n", 0},
	{"arithmetic", `X=5; echo $((X*2+1)) $(( (X>3) && 1 )) $((7%4)) $((1<<4)); X=$((X+1)); echo $X`, "11 1 3 16\n6\n", 0},
	{"division by zero", `echo $((1/0)); echo no`, "", 2},
	{"pipes", `printf 'c\na\nb\n' | sort | head -n 2 | tail -n 1`, "b\n", 0},
	{"a pipe without a reader", `while true; do echo y; done | head -n 1`, "y\n", 0},
	{"variables of a pipeline", `X=1; echo a | X=2; echo $X`, "1\n", 0},
	{"here document", "X=1; cat <<E\na $X\n$(echo b)\nE\ncat <<'E'\n$X\nE\ncat <<-E\n\t\ttab\n\tE\n", "a 1\nb\n$X\ntab\n", 0},
	{"trap EXIT", `trap 'echo bye $?' EXIT; echo a; exit 3`, "a\nbye 3\n", 3},
	{"trap EXIT at the end", `trap 'echo bye' EXIT; (trap 'echo sub' EXIT; true); echo a`, "sub\na\nbye\n", 0},
	{"trap EXIT and errexit", `set -e; trap 'echo bye' 0; false`, "bye\n", 1},
	{"trap of a job", `{ trap 'echo got; exit 4' TERM; sleep 5 & wait; } & sleep 0.1; kill $!; wait $!; echo $?`, "got\n4\n", 0},
	{"kill a job", `sleep 100 & kill $!; wait $!; echo $?; kill -0 $! 2>/dev/null; echo $?`, "143\n1\n", 0},
	{"wait for a job", `(sleep 0.1; exit 7) & p=$!; wait $p; echo $?`, "7\n", 0},
	{"background list", `X=1; true && X=2 & wait; echo $X`, "1\n", 0},
	{"eval", `X='echo a; Y=2'; eval "$X"; echo $Y`, "a\n2\n", 0},
	{"source", `echo 'Z=3; f() { echo $Z; }' > /tmp/lib; . /tmp/lib; f; rm /tmp/lib`, "3\n", 0},
	{"command -v", `command -v cat >/dev/null && echo yes; command -v nosuch || echo no`, "yes\nno\n", 0},
	{"exec of descriptors", `exec 3>&1; echo a >&3; exec > /dev/null; echo no; echo b >&3`, "a\nb\n", 0},
	{"swapped descriptors", `{ echo out; echo err >&2; } 2>&1 >/dev/null`, "err\n", 0},
	{"escapes", `X=a\ b; echo "$X" \$X '\n' "\"q\"" a\'b`, "a b $X \\n \"q\" a'b\n", 0},
	{"braces", `echo {a,b} {1..3}`, "{a,b} {1..3}\n", 0},
	{"word splitting", `X='a  b'; set -- $X; echo $#; set -- "$X"; echo $#; IFS=,; Y=1,2,3; set -- $Y; echo $#`, "2\n1\n3\n", 0},
	{"globs", `mkdir /tmp/glob; cd /tmp/glob; touch b a; echo *; echo no*; for f in /tmp/glob/*; do echo ${f##*/}; done; rm -r /tmp/glob`, "a b\nno*\na\nb\n", 0},
	{"backquotes", "echo `echo a` \"`echo b`\"", "a b\n", 0},
	{"assignments of one command", `X=1 sh -c 'echo $X'; echo "<$X>"; X=2 env | grep ^X`, "1\n<>\nX=2\n", 0},
	{"export", `X=1; sh -c 'echo "<$X>"'; export X; sh -c 'echo "<$X>"'; unset X; echo "<$X>"`, "<>\n<1>\n<>\n", 0},
	{"readonly", `readonly X=1; X=2; echo no`, "", 2},
	{"nested quotes", `echo "$(echo "a $(echo "b")")"`, "a b\n", 0},
	{"expr of texts", `expr abc : 'a\(.*\)'; expr 2 + 3 '*' 4; expr \( 2 + 3 \) '*' 4; expr a = b; expr 3 '<' 10`, "bc\n14\n20\n0\n1\n", 0},
	{"test operators", `[ -d /tmp -a ! -f /tmp ] && echo a; [ a = b -o c = c ] && echo b; [ \( a = a \) ] && echo c; [ "" ] || echo d; [ ! ] && echo e; [ -n ] && echo f`, "a\nb\nc\nd\ne\nf\n", 0},
	{"test of a bad number", `[ a -eq 1 ] 2>/dev/null; echo $?`, "2\n", 0},
	{"seq", `seq 3; seq 2 4 | wc -l; seq 10 -5 0; seq -s , 1 3`, "1\n2\n3\n3\n10\n5\n0\n1,2,3\n", 0},
	{"grep", `printf 'a1\nb2\nA3\n' > /tmp/g; grep a /tmp/g; grep -c '[0-9]' /tmp/g; grep -iv a < /tmp/g; grep -E '^(a|b)' /tmp/g; grep -q zz /tmp/g; echo $?; grep -n b2 /tmp/g; grep -o '[0-9]' /tmp/g; rm /tmp/g`,
		"a1\n3\nb2\na1\nb2\n1\n2:b2\n1\n2\n3\n", 0},
	{"head and tail", `seq 20 | head -3; seq 20 | tail -n 2; seq 5 | tail -n +4; printf abcdef | head -c 3; echo; seq 12 | head | wc -l`, "1\n2\n3\n19\n20\n4\n5\nabc\n10\n", 0},
	{"sort", `printf '10\n9\n1\n9\n' | sort -n; printf 'b\na\nb\n' | sort -ru`, "1\n9\n9\n10\nb\na\n", 0},
	{"files", `mkdir -p /tmp/d/e; echo x > /tmp/d/e/f; cp /tmp/d/e/f /tmp/d/g; mv /tmp/d/g /tmp/d/h; cat /tmp/d/h; ls /tmp/d; ls /tmp/d/e/f; rm -r /tmp/d; ls /tmp/d 2>/dev/null || echo gone`, "x\ne\nh\n/tmp/d/e/f\ngone\n", 0},
	{"missing directories", `echo x > /no/such/dir 2>/dev/null; echo $?; mkdir /no/such 2>/dev/null; echo $?; rm /no/such 2>/dev/null; echo $?; rm -f /no/such; echo $?`, "1\n1\n1\n0\n", 0},
	{"dd", `dd if=/dev/zero of=/tmp/z bs=1k count=3 2>/dev/null; wc -c < /tmp/z; rm /tmp/z`, "3072\n", 0},
	{"wc", `printf 'a b\nc\n' | wc -w; printf 'a b\nc\n' | wc -c`, "3\n6\n", 0},
	{"date", `date -u -d @86400 +%Y-%m-%dT%H:%M:%SZ; [ $(date +%s) -gt 0 ] && echo ok`, "1970-01-02T00:00:00Z\nok\n", 0},
	{"printf repeats", `printf '%s,' a b c; printf '%03d|%-4s|%x\n' 7 ab 255; printf 'no newline'`, "a,b,c,007|ab  |ff\nno newline", 0},
	{"echo -e", `echo -e 'a\tb'; echo 'a\tb'; echo -- x; echo -x`, "a\tb\na\\tb\n-- x\n-x\n", 0},
	{"script files", `printf '#!/bin/sh\necho "$0 $1"\nexit 5\n' > /tmp/s; sh /tmp/s a; echo $?; rm /tmp/s; sh /no/such 2>/dev/null; echo $?`, "/tmp/s a\n5\n2\n", 0},
	{"timeout", `timeout 0.2 sleep 5; echo $?; timeout 5 true; echo $?`, "143\n0\n", 0},
	{"retry", `n=0; until [ $n -ge 3 ]; do n=$((n + 1)); echo "try $n"; sleep 0.01; done; exit $n`, "try 1\ntry 2\ntry 3\n", 3},
	{"tilde", `HOME=/h; echo ~ ~/x ~nosuchuser`, "/h /h/x ~nosuchuser\n", 0},
	{"status of a pipeline in a condition", `if echo abc | grep -q b; then echo yes; fi`, "yes\n", 0},
	{"$$ and $PPID", `[ -n "$$" ] && sh -c '[ $$ -gt 0 ]' && echo ok`, "ok\n", 0},
	{"tee", `echo a | tee /tmp/t; cat /tmp/t; rm /tmp/t`, "a\na\n", 0},
	{"colon with a redirection", `: > /tmp/c; [ -e /tmp/c ] && [ ! -s /tmp/c ] && echo ok; rm /tmp/c`, "ok\n", 0},
	{"continued line", "echo a \\\n b", "a b\n", 0},
}

func TestScripts(t *testing.T) {
	for _, tc := range scripts {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			p := New(Config{Args: []string{"sh", "-c", tc.script}, Stdout: &out, Stderr: &errs, Files: memfs.NewContainer()})
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
	for _, tc := range scripts {
		f.Add(tc.script)
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
