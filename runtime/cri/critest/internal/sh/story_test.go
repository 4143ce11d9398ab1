package sh

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/internal/memfs"
)

var rewrite = flag.Bool("rewrite", false, "write what busybox prints into testdata/scripts.txt")

// A story is a script of testdata/scripts.txt, and what it does:
//
//	== its name
//	its lines
//	--> out
//	what it prints; "--> out without a newline" if its last line does not end
//	--> err
//	likewise, on standard error
//	--> exit code
type story struct {
	name, script string
	outcome
}

type outcome struct {
	out, errs string
	code      int
}

const storyFile = "testdata/scripts.txt"

func readStories(t testing.TB) (all []story) {
	t.Helper()
	b, err := os.ReadFile(storyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split("\n"+string(b), "\n== ")[1:] {
		name, text, _ := strings.Cut(strings.TrimSuffix(text, "\n")+"\n", "\n")
		parts := strings.Split("\n"+text, "\n--> ")
		s := story{name: name, script: strings.TrimSpace(parts[0])}
		for _, part := range parts[1:] {
			what, text, _ := strings.Cut(part+"\n", "\n")
			if rest, ok := strings.CutSuffix(what, " without a newline"); ok {
				what, text = rest, strings.TrimSuffix(text, "\n")
			}
			switch {
			case what == "out":
				s.out = text
			case what == "err":
				s.errs = text
			default:
				if _, err := fmt.Sscanf(what, "exit %d", &s.code); err != nil {
					t.Fatalf("%s: --> %s", s.name, what)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

func (s story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s\n%s\n", s.name, s.script)
	for _, o := range []struct{ what, text string }{{"out", s.out}, {"err", s.errs}} {
		switch {
		case o.text == "":
		case strings.HasSuffix(o.text, "\n"):
			fmt.Fprintf(&b, "--> %s\n%s", o.what, o.text)
		default:
			fmt.Fprintf(&b, "--> %s without a newline\n%s\n", o.what, o.text)
		}
	}
	fmt.Fprintf(&b, "--> exit %d\n", s.code)
	return b.String()
}

var (
	lineNumber  = regexp.MustCompile(`line \d+: `)
	syntaxCause = regexp.MustCompile(`syntax error.*`)
)

// plain removes what shells word differently: line numbers, the causes of syntax errors, and that a job was killed.
func plain(errs string) string {
	errs = strings.ReplaceAll(errs, "Terminated\n", "")
	return syntaxCause.ReplaceAllString(lineNumber.ReplaceAllString(errs, ""), "syntax error")
}

func runStory(script string) outcome {
	var out, errs bytes.Buffer
	p := New(Config{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errs, Files: memfs.NewContainer()})
	code := p.Run()
	return outcome{out.String(), plain(errs.String()), code}
}

func TestScripts(t *testing.T) {
	for _, s := range readStories(t) {
		t.Run(s.name, func(t *testing.T) {
			if got := runStory(s.script); got != s.outcome {
				t.Errorf("%s\ngot  %+v\nwant %+v", s.script, got, s.outcome)
			}
		})
	}
}

// What the file expects is what a real shell does.
func TestScriptsMeanTheSameToBusybox(t *testing.T) {
	busybox, err := osexec.LookPath("busybox")
	if err != nil {
		t.Skip("no busybox on this machine")
	}
	stories := readStories(t)
	for i, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			cmd := osexec.Command(busybox, "sh", "-c", s.script)
			cmd.Env = []string{"PATH=/bin:/usr/bin"}
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil && !errors.As(err, new(*osexec.ExitError)) {
				t.Fatal(err)
			}
			got := outcome{out.String(), plain(errs.String()), cmd.ProcessState.ExitCode()}
			if *rewrite {
				stories[i].outcome = got
			} else if got != s.outcome {
				t.Errorf("%s\ngot  %+v\nwant %+v", s.script, got, s.outcome)
			}
		})
	}
	if !*rewrite {
		return
	}
	var b strings.Builder
	for _, s := range stories {
		b.WriteString(s.String())
	}
	if err := os.WriteFile(storyFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
