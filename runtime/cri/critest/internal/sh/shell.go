package sh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A file is what a file descriptor refers to: a reader, a writer or, if it is closed, neither.
type file struct {
	r io.Reader
	w io.Writer
}

// fds are the file descriptors of a shell.
type fds [10]file

// An applet is a command. It returns its exit code.
type applet func(s *shell, args []string) int

// A flow is why a shell does not run its next statement.
type flow int

const (
	onward flow = iota
	breaks
	continues
	returns
	exits
)

// options are the options of set.
type options struct{ errexit, nounset, xtrace, noglob, pipefail bool }

// A shell runs statements. The main shell of a process handles its signals. Others run in the background, in pipelines or
// in parentheses, and end with it.
type shell struct {
	p       *Process
	ctx     context.Context // ends with the process, or with the command that was typed
	signals *signals        // nil in a subshell, to which no signal is sent
	vars    map[string]expand.Variable
	locals  []map[string]expand.Variable // values to restore, for each running function
	funcs   map[string]*syntax.Stmt
	name    string // $0
	args    []string
	dir     string
	fds     fds
	opts    options
	bash    bool
	main    bool // no command has run: the next one is the process itself
	pid     int
	mine    []*job // background jobs of this shell
	last    int    // $?
	lastJob int    // $!, 0 without one
	line    uint   // of the running command
	flow    flow
	levels  int    // loops that break or continue still has to leave
	loops   int    // running loops
	calls   int    // running functions and sourced files
	ignored int    // errexit does not count while it is positive
	onExit  string // the action of trap EXIT
	keepFDs bool   // exec has made the redirections of its statement those of the shell
	// substituted is the last substitution's exit code in the running command, 0 without one.
	substituted int
	cfg         *expand.Config
}

func newShell(p *Process) *shell {
	s := &shell{
		p: p, ctx: p.ctx, signals: p.signals, main: true, name: "sh", dir: "/", pid: 1, vars: map[string]expand.Variable{},
		funcs: map[string]*syntax.Stmt{}, fds: fds{{r: p.cfg.Stdin}, {w: p.cfg.Stdout}, {w: p.cfg.Stderr}},
	}
	if p.cfg.Kill != nil {
		s.pid = p.jobs.number()
	}
	for k, v := range p.cfg.Env {
		s.vars[k] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: v}
	}
	s.set("PWD", s.dir)
	s.configure()
	return s
}

// fork returns a subshell.
func (s *shell) fork() *shell {
	child := *s
	child.vars, child.funcs, child.locals = maps.Clone(s.vars), maps.Clone(s.funcs), nil
	child.main, child.signals, child.mine, child.onExit = false, nil, nil, ""
	child.loops, child.calls = 0, s.calls
	child.configure()
	return &child
}

// stopped reports whether the shell must not run another statement.
func (s *shell) stopped() bool { return s.flow != onward || s.ctx.Err() != nil }

func (s *shell) errorf(format string, args ...any) {
	fmt.Fprintf(s.fds[2].w, format+"\n", args...)
}

// fail ends the shell with its own error.
func (s *shell) fail(format string, args ...any) int {
	s.errorf("sh: line %d: "+format, append([]any{s.line}, args...)...)
	s.flow, s.last = exits, 2
	return 2
}

// script parses and runs a text.
func (s *shell) script(text string) {
	l, err := parse(text, s.bash)
	if err != nil {
		s.errorf("sh: %v", err)
		s.last, s.flow = 2, exits
		return
	}
	s.stmts(l)
}

// finish runs the action of trap EXIT. A shell that a signal has ended does not run it.
func (s *shell) finish() {
	action := s.onExit
	if s.onExit = ""; action == "" || s.ctx.Err() != nil {
		return
	}
	last := s.last
	s.flow = onward
	s.script(action)
	if s.flow != exits {
		s.last = last
	}
	s.flow = exits
}

func (s *shell) stmts(l []*syntax.Stmt) {
	for _, st := range l {
		if s.stopped() {
			return
		}
		s.stmt(st)
		s.runTraps()
	}
}

func (s *shell) stmt(st *syntax.Stmt) {
	s.line = st.Pos().Line()
	if st.Background {
		s.background(st)
		return
	}
	before := s.fds
	undo, err := s.redirect(st.Redirs)
	if err != nil {
		s.errorf("sh: %v", err)
		s.last = 1
	} else {
		if st.Negated {
			s.ignored++
		}
		s.command(st.Cmd)
		if st.Negated {
			s.ignored--
		}
	}
	if err := undo(before); err != nil && s.last == 0 {
		s.last = 1
	}
	if st.Negated && s.flow == onward {
		s.last = oneIf(s.last == 0)
		return
	}
	if s.last != 0 && s.opts.errexit && s.ignored == 0 && s.flow == onward && (err != nil || endsOnError(st.Cmd)) {
		s.flow = exits
	}
}

// endsOnError reports whether the failure of a command counts for errexit. The statements within other commands have
// counted themselves.
func endsOnError(c syntax.Command) bool {
	switch c := c.(type) {
	case *syntax.BinaryCmd:
		return c.Op == syntax.Pipe || c.Op == syntax.PipeAll
	case *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause:
		return false
	}
	return true
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *shell) command(c syntax.Command) {
	switch c := c.(type) {
	case nil:
		s.last = 0
	case *syntax.CallExpr:
		s.call(c)
	case *syntax.Block:
		s.stmts(c.Stmts)
	case *syntax.Subshell:
		s.last = s.subshell(c.Stmts)
	case *syntax.BinaryCmd:
		s.binary(c)
	case *syntax.IfClause:
		s.branch(c)
	case *syntax.WhileClause:
		s.while(c)
	case *syntax.ForClause:
		s.each(c)
	case *syntax.CaseClause:
		s.choose(c)
	case *syntax.FuncDecl:
		s.funcs[c.Name.Value] = c.Body
		s.last = 0
	case *syntax.DeclClause:
		s.declare(c)
	case *syntax.TestClause:
		s.last = s.testClause(c.X)
	case *syntax.ArithmCmd:
		s.last = oneIf(s.arithm(c.X) == 0)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			s.last = oneIf(s.arithm(x) == 0)
		}
	default:
		s.fail("%T is not supported", c)
	}
}

// subshell runs statements in their own shell and returns their exit code.
func (s *shell) subshell(l []*syntax.Stmt) int {
	child := s.fork()
	child.stmts(l)
	child.finish()
	return child.last
}

func (s *shell) binary(c *syntax.BinaryCmd) {
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		s.pipeline(c)
		return
	}
	s.condition(func() { s.stmt(c.X) })
	if !s.stopped() && (s.last == 0) == (c.Op == syntax.AndStmt) {
		s.stmt(c.Y)
	}
}

// condition runs statements whose failure does not count for errexit.
func (s *shell) condition(run func()) {
	s.ignored++
	defer func() { s.ignored-- }()
	run()
}

func (s *shell) branch(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 { // else
			s.stmts(c.Then)
			return
		}
		s.condition(func() { s.stmts(c.Cond) })
		if s.stopped() {
			return
		}
		if s.last == 0 {
			s.stmts(c.Then)
			return
		}
		s.last = 0
	}
}

// loop runs a loop's body, and reports whether the loop continues.
func (s *shell) loop(body []*syntax.Stmt) bool {
	s.stmts(body)
	if s.flow == breaks || s.flow == continues {
		if s.levels--; s.levels > 0 {
			return false
		}
		again := s.flow == continues
		s.flow = onward
		return again
	}
	return !s.stopped()
}

// while makes every iteration take at least a millisecond, so that a loop without a sleep does not stop virtual time.
func (s *shell) while(c *syntax.WhileClause) {
	s.loops++
	defer func() { s.loops-- }()
	code := 0
	for s.sleep(time.Millisecond) {
		s.condition(func() { s.stmts(c.Cond) })
		if s.stopped() {
			s.loop(nil) // break and continue may stand in the condition, too
			return
		}
		if (s.last == 0) == c.Until {
			s.last = code
			return
		}
		more := s.loop(c.Do)
		if code = s.last; !more {
			return
		}
	}
}

func (s *shell) each(c *syntax.ForClause) {
	words := c.Loop.(*syntax.WordIter) // parse refuses other loops
	items := s.args
	if words.InPos.IsValid() {
		var err error
		if items, err = s.fields(words.Items); err != nil {
			s.expandFailed(err)
			return
		}
	}
	s.loops++
	defer func() { s.loops-- }()
	s.last = 0
	for _, item := range items {
		if !s.set(words.Name.Value, item) || !s.loop(c.Do) {
			return
		}
	}
}

func (s *shell) choose(c *syntax.CaseClause) {
	text, err := expand.Literal(s.cfg, c.Word)
	s.last = 0
	for _, item := range c.Items {
		for _, w := range item.Patterns {
			var p string
			if err == nil {
				p, err = expand.Pattern(s.cfg, w)
			}
			if err != nil {
				s.expandFailed(err)
				return
			}
			if match(p, text) {
				s.stmts(item.Stmts)
				return
			}
		}
	}
}

// runTraps runs the actions of pending signals. A shell does so between commands, never during one:
// `trap "exit 0" TERM; sleep 100` does not end before the sleep has ended.
func (s *shell) runTraps() (last Signal) {
	for s.signals != nil && !s.stopped() {
		n, action, ok := s.signals.next()
		if !ok {
			break
		}
		last = n
		status := s.last
		s.script(action)
		if s.flow != exits {
			s.last = status
		}
	}
	return last
}

// runLines runs each statement of the standard input once it is complete. In an interactive shell an invalid one fails
// alone.
func (s *shell) runLines() {
	if !s.p.cfg.Terminal || !s.main {
		_ = s.linesOf(s.fds[0].r, s.stmts)
		return
	}
	s.p.mu.Lock()
	s.p.typed = true
	s.p.mu.Unlock()
	for errors.Is(s.linesOf(s.fds[0].r, s.typed), ErrInterrupted) && !s.stopped() { // Ctrl-C does not end a shell
		s.errorf("")
	}
}

// linesOf runs what it reads, until the reader's first error.
func (s *shell) linesOf(r io.Reader, run func([]*syntax.Stmt)) error {
	var script strings.Builder
	for !s.stopped() {
		line, err := readLine(r)
		if err != nil && line == "" {
			if script.Len() > 0 && errors.Is(err, io.EOF) {
				s.script(script.String())
			}
			return err
		}
		script.WriteString(line + "\n")
		l, perr := parse(script.String(), s.bash)
		if e, ok := errors.AsType[*syntaxError](perr); ok {
			if e.incomplete {
				continue
			}
			s.errorf("sh: %v", perr)
			if s.last = 2; !s.p.cfg.Terminal {
				s.flow = exits
			}
		}
		script.Reset()
		run(l)
	}
	return nil
}

// typed runs a line that was typed at a terminal. Interrupt ends the line, but not the shell.
func (s *shell) typed(l []*syntax.Stmt) {
	ctx, end := context.WithCancel(s.p.ctx)
	s.ctx = ctx
	s.p.mu.Lock()
	s.p.stop = end
	s.p.mu.Unlock()
	s.stmts(l)
	if ctx.Err() != nil {
		s.last = exitBySignal(SIGINT)
		s.errorf("")
	}
	end()
	s.ctx = s.p.ctx
}
