package sh

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

type stdio struct{ out, err io.Writer }

// An applet is a built-in command.
type applet func(s *shell, args []string, io stdio) int

// A shell runs lists. The main shell of a process handles its signals. Children run in the background or
// in parentheses, and end with it.
type shell struct {
	p     *Process
	ctx   context.Context // ends with the process, or with the command that was typed
	env   map[string]string
	main  bool // no command has run: the next one is the process itself
	child bool
	jobs  *sync.WaitGroup // of the whole process
	mine  []chan struct{} // background jobs of this shell, closed when done
	last  int             // $?
	exit  bool            // exit was called; last is the code
	trace bool            // each command is printed before it runs
	// substituted is the exit code of the last substitution in the running command, 0 without one.
	substituted int
}

func newShell(p *Process) *shell {
	return &shell{p: p, ctx: p.ctx, main: true, env: p.cfg.Env, jobs: &sync.WaitGroup{}}
}

func (s *shell) fork() *shell {
	return &shell{p: s.p, ctx: s.ctx, env: maps.Clone(s.env), child: true, jobs: s.jobs, last: s.last, trace: s.trace}
}

// stopped reports whether the shell must not run another command.
func (s *shell) stopped() bool { return s.exit || s.ctx.Err() != nil }

// script parses and runs a text.
func (s *shell) script(text string, io stdio) int {
	l, err := parse(text)
	if err != nil {
		fmt.Fprintf(io.err, "sh: syntax error: %v\n", err)
		s.last, s.exit = 2, true
		return 2
	}
	s.list(l, io)
	return s.last
}

func (s *shell) list(l list, io stdio) {
	for _, it := range l {
		if s.stopped() {
			return
		}
		if it.join == "&&" && s.last != 0 || it.join == "||" && s.last == 0 {
			continue
		}
		if it.background {
			s.background(it.command, io)
			continue
		}
		s.command(it.command, io)
		s.runTraps(io)
	}
}

func (s *shell) background(c command, io stdio) {
	done := make(chan struct{})
	s.mine = append(s.mine, done)
	child := s.fork()
	child.ctx = s.p.ctx // Ctrl-C ends the foreground only
	s.jobs.Go(func() {
		defer close(done)
		child.command(c, io)
	})
	s.last = 0
}

func (s *shell) command(c command, io stdio) {
	switch {
	case c.simple != nil:
		s.simple(c.simple, io)
	case c.loop != nil:
		s.loop(c.loop, io)
	case c.branch != nil:
		s.branch(c.branch, io)
	case c.subshell:
		sub := s.fork()
		sub.list(c.group, io)
		s.last = sub.last
	default:
		s.list(c.group, io)
	}
}

// loop makes every iteration take at least a millisecond, so that a loop without a sleep does not stop
// virtual time.
func (s *shell) loop(l *loop, io stdio) {
	code := 0
	for s.sleep(time.Millisecond) {
		s.list(l.cond, io)
		if s.stopped() {
			return
		}
		if (s.last == 0) == l.until {
			s.last = code
			return
		}
		s.list(l.body, io)
		if s.stopped() {
			return
		}
		code = s.last
	}
}

func (s *shell) branch(b *branch, io stdio) {
	s.list(b.cond, io)
	if s.stopped() {
		return
	}
	if s.last == 0 {
		s.list(b.then, io)
		return
	}
	s.last = 0
	s.list(b.otherwise, io)
}

func (s *shell) simple(c *simple, io stdio) {
	io, written, err := s.redirect(c.redirs, io)
	if err == nil {
		s.substituted = 0
		args := make([]string, len(c.words))
		for i, w := range c.words {
			args[i] = s.expand(w, io)
		}
		if s.trace && len(args) > 0 {
			fmt.Fprintln(io.err, "+", strings.Join(args, " "))
		}
		s.last = s.assignOrRun(c.words, args, io)
		err = written()
	}
	if err != nil {
		fmt.Fprintf(s.p.cfg.Stderr, "sh: %v\n", err)
		s.last = 1
	}
}

func (s *shell) assignOrRun(words []word, args []string, io stdio) int {
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if !ok || !isName(name) || len(words[0].parts) == 0 || !strings.HasPrefix(words[0].parts[0].text, name+"=") {
			break
		}
		s.env[name] = value
		words, args = words[1:], args[1:]
	}
	if len(args) == 0 {
		return s.substituted
	}
	return s.run(args, io)
}

// run runs a command with its arguments.
func (s *shell) run(args []string, io stdio) int {
	if b := builtin(args[0]); b != nil {
		return b(s, args, io)
	}
	return s.runArgs(args, io)
}

// runArgs runs a program.
func (s *shell) runArgs(args []string, io stdio) int {
	if a := s.p.lookup(args[0]); a != nil {
		return a(s, args, io)
	}
	fmt.Fprintf(io.err, "sh: %s: not found\n", args[0])
	return 127
}

func (s *shell) expand(w word, io stdio) string {
	var b strings.Builder
	for _, p := range w.parts {
		switch {
		case p.substitution:
			b.WriteString(s.output(p.commands, io))
		case !p.variable:
			b.WriteString(p.text)
		case p.text == "?":
			b.WriteString(strconv.Itoa(s.last))
		case p.text == "$":
			b.WriteByte('1')
		default:
			b.WriteString(s.env[p.text])
		}
	}
	return b.String()
}

// maxOutput is the maximum output of a substitution in bytes: Linux limits an argument to the same size.
const maxOutput = 128 << 10

// output runs commands in a child and returns their output without the trailing newlines. It waits for the background
// jobs of the child, because their output counts, too.
func (s *shell) output(l list, io stdio) string {
	child, out := s.fork(), &limitedBuffer{left: maxOutput}
	child.list(l, stdio{out: out, err: io.err})
	for _, done := range child.mine {
		select {
		case <-done:
		case <-s.ctx.Done():
		}
	}
	s.last, s.substituted = child.last, child.last
	return strings.TrimRight(out.String(), "\n")
}

// A limitedBuffer drops bytes beyond its limit. Its methods may be called concurrently.
type limitedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
	left int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := p[:min(len(p), b.left)]
	b.left -= len(kept)
	b.text.Write(kept)
	return len(p), nil
}

func (b *limitedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// file returns an absolute path. The working directory is the root.
func file(name string) string { return path.Join("/", name) }

func isName(s string) bool {
	for i, c := range s {
		if !isNameRune(c) || i == 0 && c >= '0' && c <= '9' {
			return false
		}
	}
	return s != ""
}

// runTraps runs the actions of pending signals. A shell does so between commands, never during one:
// `trap "exit 0" TERM; sleep 100` does not end before the sleep has ended.
func (s *shell) runTraps(io stdio) (last Signal) {
	if s.child {
		return 0
	}
	for !s.stopped() {
		s.p.mu.Lock()
		if len(s.p.pending) == 0 {
			s.p.mu.Unlock()
			break
		}
		n := s.p.pending[0]
		s.p.pending = s.p.pending[1:]
		action := s.p.traps[n]
		s.p.mu.Unlock()
		last = n
		status := s.last
		s.script(action, io)
		if !s.exit {
			s.last = status
		}
	}
	return last
}
