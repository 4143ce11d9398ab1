package sh

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// variables gives package expand the variables and parameters of a shell.
type variables struct{ s *shell }

func text(v string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: v} }

func (v variables) Get(name string) expand.Variable {
	s := v.s
	switch name {
	case "#":
		return text(strconv.Itoa(len(s.args)))
	case "?":
		return text(strconv.Itoa(s.last))
	case "$":
		return text(strconv.Itoa(s.pid))
	case "!":
		if s.lastJob == 0 {
			return expand.Variable{}
		}
		return text(strconv.Itoa(s.lastJob))
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: s.args}
	case "-":
		return text(s.opts.String())
	case "PPID":
		return text("0")
	case "RANDOM":
		return text(strconv.Itoa(rand.IntN(1 << 15)))
	case "HOME root":
		return text("/root")
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok { // or else package expand asks the machine
		return text("~" + user)
	}
	if n, err := strconv.Atoi(name); err == nil {
		switch {
		case n == 0:
			return text(s.name)
		case n <= len(s.args):
			return text(s.args[n-1])
		}
		return expand.Variable{}
	}
	return s.vars[name]
}

func (v variables) Each(fn func(string, expand.Variable) bool) {
	for name, vr := range v.s.vars {
		if !fn(name, vr) {
			return
		}
	}
}

var errReadOnly = errors.New("is read only")

func (v variables) Set(name string, vr expand.Variable) error {
	old := v.s.vars[name]
	if old.ReadOnly {
		return errReadOnly
	}
	old.Set, old.Kind, old.Str = vr.Set, expand.String, vr.Str
	v.s.vars[name] = old
	return nil
}

// set sets a variable. It returns false if the variable is read only, which ends the shell.
func (s *shell) set(name, value string) bool {
	if err := (variables{s}).Set(name, text(value)); err != nil {
		s.fail("%s: %v", name, err)
		return false
	}
	return true
}

func (s *shell) get(name string) string { return variables{s}.Get(name).String() }

// exported returns a program's environment.
func (s *shell) exported() map[string]string {
	env := map[string]string{}
	for name, v := range s.vars {
		if v.Exported && v.Set {
			env[name] = v.Str
		}
	}
	return env
}

// configure must be called after a change to the options.
func (s *shell) configure() {
	s.cfg = &expand.Config{Env: variables{s}, CmdSubst: s.substitute, NoUnset: s.opts.nounset}
	if !s.opts.noglob {
		s.cfg.ReadDir2 = func(dir string) ([]fs.DirEntry, error) { return s.p.cfg.Files.ReadDir(s.path(dir)) }
	}
}

// path returns an absolute path.
func (s *shell) path(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(s.dir, name)
	}
	return path.Clean(name)
}

func (s *shell) fields(words []*syntax.Word) ([]string, error) { return expand.Fields(s.cfg, words...) }

func (s *shell) arithm(x syntax.ArithmExpr) int {
	n, err := expand.Arithm(s.cfg, x)
	if err != nil {
		s.expandFailed(err)
	}
	return n
}

// expandFailed ends the shell, as each failed expansion does.
func (s *shell) expandFailed(err error) {
	if e, ok := errors.AsType[expand.UnsetParameterError](err); ok {
		if e.Message == "unbound variable" {
			e.Message = "parameter not set"
		}
		err = e
	}
	s.fail("%v", err)
}

// match reports whether a text matches a pattern of the shell.
func match(p, s string) bool {
	expr, err := pattern.Regexp(p, pattern.EntireString)
	if err != nil {
		return p == s
	}
	rx, err := regexp.Compile(expr)
	return err == nil && rx.MatchString(s)
}

// maxOutput is the maximum output of a substitution in bytes: Linux limits an argument to the same size.
const maxOutput = 128 << 10

// substitute writes the command output. It waits for their background jobs, because their output counts, too.
func (s *shell) substitute(w io.Writer, c *syntax.CmdSubst) error {
	child, out := s.fork(), &limitedBuffer{left: maxOutput}
	child.fds[1] = file{w: out}
	if len(c.Stmts) == 1 && c.Stmts[0].Cmd == nil && len(c.Stmts[0].Redirs) == 1 { // $(<file)
		child.printFile(c.Stmts[0].Redirs[0])
	} else {
		child.stmts(c.Stmts)
	}
	child.finish()
	for _, j := range child.mine {
		select {
		case <-j.done:
		case <-s.ctx.Done():
		}
	}
	s.substituted, s.last = child.last, child.last
	_, err := io.WriteString(w, out.String())
	return err
}

func (s *shell) printFile(r *syntax.Redirect) {
	f, err := s.open(r)
	if err != nil || f.r == nil {
		s.errorf("sh: %v", err)
		s.last = 1
		return
	}
	s.last = copied(s, s.fds[1].w, f.r)
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
