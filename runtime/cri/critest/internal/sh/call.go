package sh

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxCalls limits the depth of functions that call themselves.
const maxCalls = 500

// call runs a simple command, or assigns to variables.
func (s *shell) call(c *syntax.CallExpr) {
	s.substituted = 0
	args, err := s.fields(c.Args)
	if err != nil {
		s.expandFailed(err)
		return
	}
	if len(args) == 0 {
		s.last = 0
		for _, a := range c.Assigns {
			if !s.assign(a) {
				return
			}
		}
		s.last = s.substituted
		return
	}
	restore := map[string]expand.Variable{}
	for _, a := range c.Assigns {
		name := a.Name.Value
		if _, again := restore[name]; !again {
			restore[name] = s.vars[name]
		}
		if !s.assign(a) {
			return
		}
		v := s.vars[name]
		v.Exported = true
		s.vars[name] = v
	}
	s.tracef(args)
	s.last = s.run(args)
	if !keepsAssignments(args[0]) {
		s.restore(restore)
	}
}

// keepsAssignments reports whether X=1 NAME is also an assignment to the shell's X.
func keepsAssignments(name string) bool {
	switch name {
	case ":", ".", "eval", "export", "readonly", "set", "unset", "exec":
		return true
	}
	return false
}

func (s *shell) restore(vars map[string]expand.Variable) {
	for name, v := range vars {
		if !v.Declared() {
			delete(s.vars, name)
			continue
		}
		s.vars[name] = v
	}
}

func (s *shell) assign(a *syntax.Assign) bool {
	value, err := expand.Literal(s.cfg, a.Value)
	if err != nil {
		s.expandFailed(err)
		return false
	}
	if a.Append {
		value = s.get(a.Name.Value) + value
	}
	if s.opts.xtrace {
		s.errorf("+ %s=%s", a.Name.Value, quoted(value))
	}
	return s.set(a.Name.Value, value)
}

func (s *shell) tracef(args []string) {
	if !s.opts.xtrace {
		return
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = quoted(a)
	}
	s.errorf("+ %s", strings.Join(words, " "))
}

// quoted returns a word as a trace shows it.
func quoted(word string) string {
	q, err := syntax.Quote(word, syntax.LangPOSIX)
	if err != nil {
		return word
	}
	return q
}

// declare is export, readonly or local with assignments.
func (s *shell) declare(c *syntax.DeclClause) {
	args := []string{c.Variant.Value}
	s.substituted = 0
	for _, a := range c.Args {
		arg := a.Name.Value
		if a.Value != nil {
			value, err := expand.Literal(s.cfg, a.Value)
			if err != nil {
				s.expandFailed(err)
				return
			}
			arg += "=" + value
		} else if !a.Naked {
			arg += "="
		}
		args = append(args, arg)
	}
	s.tracef(args)
	s.last = s.run(args)
}

// run runs a command with its arguments and returns its exit code.
func (s *shell) run(args []string) int {
	if body := s.funcs[args[0]]; body != nil {
		return s.function(body, args)
	}
	if b := builtin(args[0]); b != nil {
		return b(s, args)
	}
	return s.runProgram(args)
}

func (s *shell) function(body *syntax.Stmt, args []string) int {
	if s.calls >= maxCalls {
		return s.fail("%s: functions call each other more than %d deep", args[0], maxCalls)
	}
	before := s.args
	s.args, s.calls = args[1:], s.calls+1
	s.locals = append(s.locals, map[string]expand.Variable{})
	loops := s.loops
	s.loops = 0
	s.stmt(body)
	s.loops = loops
	n := len(s.locals) - 1
	s.restore(s.locals[n])
	s.locals = s.locals[:n]
	s.args, s.calls = before, s.calls-1
	if s.flow == returns {
		s.flow = onward
	}
	return s.last
}

// program is the whole process.
func (s *shell) program(args []string) {
	code := s.runProgram(args)
	if s.main {
		s.last = code
	}
}

// runProgram runs a program or a script.
func (s *shell) runProgram(args []string) int {
	if a := s.p.lookup(args[0]); a != nil {
		return a(s, args)
	}
	script, err := s.executable(args[0])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.errorf("sh: %s: not found", args[0])
		return 127
	case err != nil:
		s.errorf("sh: %s: %s", args[0], reason(err))
		return 126
	}
	return runShell(s, slices.Concat(script, args[1:]))
}

// executable returns the command that runs a file: its interpreter, and the file.
func (s *shell) executable(name string) ([]string, error) {
	var found error = fs.ErrNotExist
	dirs := strings.Split(s.get("PATH"), ":")
	if strings.Contains(name, "/") {
		dirs = []string{s.dir}
	}
	for _, dir := range dirs {
		at := name
		if !path.IsAbs(name) {
			at = path.Join(dir, name)
		}
		info, err := s.p.cfg.Files.Stat(at)
		switch {
		case err != nil:
		case info.IsDir() || info.Mode()&0o111 == 0:
			found = fs.ErrPermission
		default:
			return s.interpreter(at)
		}
	}
	return nil, found
}

func (s *shell) interpreter(at string) ([]string, error) {
	b, err := s.p.cfg.Files.ReadFile(at)
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(b[:min(len(b), 256)]), "\n")
	line, ok := strings.CutPrefix(first, "#!")
	if !ok {
		return []string{"sh", at}, nil
	}
	words := strings.Fields(line)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = words[1:]
	}
	if len(words) == 0 || !isShell(path.Base(words[0])) {
		return nil, fmt.Errorf("%w: its interpreter %q", fs.ErrNotExist, line)
	}
	return append(words, at), nil
}

func isShell(name string) bool { return slices.Contains([]string{"sh", "ash", "bash", "dash"}, name) }

// runShell runs sh -c SCRIPT NAME ARGS, sh FILE ARGS, or the standard input, with options. As a child it has
// variables of its own; as the main command it is the process itself.
func runShell(s *shell, args []string) int {
	if !s.main {
		s = s.fork()
		maps.DeleteFunc(s.vars, func(_ string, v expand.Variable) bool { return !v.Exported })
		s.funcs, s.opts, s.flow, s.ignored, s.calls = map[string]*syntax.Stmt{}, options{}, onward, 0, s.calls+1
		if s.calls > maxCalls {
			return s.fail("shells call each other more than %d deep", maxCalls)
		}
		s.configure()
	}
	s.bash, s.name = path.Base(args[0]) == "bash", args[0]
	command, rest, ok := s.shellOptions(args[1:])
	if !ok {
		return 2
	}
	switch {
	case command && len(rest) == 0:
		s.errorf("sh: -c requires an argument")
		return 2
	case command:
		s.main = false
		if len(rest) > 1 {
			s.name, s.args = rest[1], rest[2:]
		}
		s.script(rest[0])
	case len(rest) > 0:
		s.main = false
		s.name, s.args = rest[0], rest[1:]
		b, err := s.p.cfg.Files.ReadFile(s.path(rest[0]))
		if err != nil {
			s.errorf("sh: can't open '%s': %s", rest[0], reason(err))
			return 2
		}
		s.script(string(b))
	default:
		s.runLines()
	}
	s.finish()
	return s.last
}

// shellOptions reads the options of sh.
func (s *shell) shellOptions(args []string) (command bool, rest []string, ok bool) {
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		if strings.HasPrefix(arg, "--") {
			if arg != "--login" && arg != "--norc" && arg != "--noprofile" {
				s.errorf("sh: unrecognized option '%s'", arg)
				return false, nil, false
			}
			continue
		}
		for _, o := range arg[1:] {
			switch o {
			case 'c':
				command = true
			case 'l', 'i', 's':
			case 'o':
				if len(args) == 0 || !s.option(args[0], arg[0] == '-') {
					s.errorf("sh: illegal option %s", arg)
					return false, nil, false
				}
				args = args[1:]
			default:
				if !s.option(string(o), arg[0] == '-') {
					s.errorf("sh: illegal option -%c", o)
					return false, nil, false
				}
			}
		}
	}
	return command, args, true
}

// option sets an option by its letter or its name. It returns false if there is none.
func (s *shell) option(name string, on bool) bool {
	switch name {
	case "e", "errexit":
		s.opts.errexit = on
	case "u", "nounset":
		s.opts.nounset = on
	case "x", "xtrace":
		s.opts.xtrace = on
	case "f", "noglob":
		s.opts.noglob = on
	case "pipefail":
		s.opts.pipefail = on
	case "m", "b", "h", "monitor", "notify": // job control of terminals changes nothing here
	default:
		return false
	}
	s.configure()
	return true
}

// String returns $-.
func (o options) String() string {
	text := ""
	for _, f := range []struct {
		letter string
		on     bool
	}{{"e", o.errexit}, {"f", o.noglob}, {"u", o.nounset}, {"x", o.xtrace}} {
		if f.on {
			text += f.letter
		}
	}
	return text
}
