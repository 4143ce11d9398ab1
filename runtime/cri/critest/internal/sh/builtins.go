package sh

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// builtin returns a command that is part of the shell only.
func builtin(name string) applet {
	switch name {
	case ":":
		return func(*shell, []string) int { return 0 }
	case "exit":
		return exit
	case "return":
		return returnFrom
	case "break", "continue":
		return leave
	case "trap":
		return trap
	case "wait":
		return wait
	case "exec":
		return exec
	case "export", "readonly":
		return export
	case "local":
		return local
	case "unset":
		return unset
	case "set":
		return set
	case "shift":
		return shift
	case "cd":
		return cd
	case "read":
		return read
	case "eval":
		return func(s *shell, args []string) int {
			s.last = 0
			s.script(strings.Join(args[1:], " "))
			return s.last
		}
	case ".", "source":
		return source
	case "command":
		return command
	case "type":
		return kind
	case "umask":
		return func(*shell, []string) int { return 0 }
	case "kill":
		return kill
	case "alias", "bg", "builtin", "fc", "fg", "getopts", "hash", "jobs", "mapfile", "readarray", "shopt", "times", "ulimit", "unalias",
		"declare", "typeset", "let":
		return func(s *shell, args []string) int { return s.fail("%s is not supported", args[0]) }
	}
	return nil
}

// status reads the optional argument of exit and return.
func (s *shell) status(args []string) int {
	if len(args) < 2 {
		return s.last
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		s.errorf("sh: %s: Illegal number: %s", args[0], args[1])
		return 2
	}
	return n & 0xff
}

func exit(s *shell, args []string) int {
	s.last = s.status(args)
	s.flow = exits
	return s.last
}

func returnFrom(s *shell, args []string) int {
	if s.calls == 0 {
		return exit(s, args) // as busybox does
	}
	s.last, s.flow = s.status(args), returns
	return s.last
}

// leave is break and continue.
func leave(s *shell, args []string) int {
	n := 1
	if len(args) > 1 {
		var err error
		if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
			return s.fail("%s: Illegal number: %s", args[0], args[1])
		}
	}
	if s.loops == 0 {
		return 0
	}
	s.levels, s.flow = min(n, s.loops), breaks
	if args[0] == "continue" {
		s.flow = continues
	}
	return 0
}

// trap sets the actions of signals and of EXIT.
func trap(s *shell, args []string) int {
	if args = args[1:]; len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return s.fail("trap without arguments is not supported")
	}
	action := "-"
	if len(args) > 1 {
		action, args = args[0], args[1:]
	}
	for _, name := range args {
		n, ok := ParseSignal(name)
		switch {
		case !ok:
			s.errorf("sh: trap: %s: invalid signal specification", name)
			return 1
		case n == 0:
			s.onExit = strings.TrimPrefix(action, "-")
		case s.signals != nil:
			s.signals.set(n, action)
		}
	}
	return 0
}

// wait waits for background jobs of this shell. A trapped signal ends it.
func wait(s *shell, args []string) int {
	jobs, code := s.mine, 0
	if len(args) > 1 {
		jobs = nil
		for _, a := range args[1:] {
			pid, err := strconv.Atoi(a)
			i := slices.IndexFunc(s.mine, func(j *job) bool { return j.pid == pid })
			if err != nil || strings.HasPrefix(a, "-") {
				return s.fail("wait: only process IDs are supported: %s", a)
			}
			if i < 0 {
				code = 127
				continue
			}
			jobs = append(jobs, s.mine[i])
		}
	}
	for _, j := range jobs {
		if n, ended := s.await(j); !ended {
			return n
		}
		if code = 0; len(args) > 1 {
			code = j.code
		}
	}
	if len(args) == 1 {
		s.mine = nil
	}
	return code
}

func (s *shell) await(j *job) (code int, ended bool) {
	var wake chan struct{}
	if s.signals != nil {
		wake = s.signals.wake
	}
	for {
		select {
		case <-j.done:
			return 0, true
		case <-s.ctx.Done():
			return 0, false
		case <-wake:
			if n := s.runTraps(); s.flow == exits {
				return s.last, false
			} else if n != 0 {
				return exitBySignal(n), false
			}
		}
	}
}

// exec replaces the shell by a program, or makes redirections permanent.
func exec(s *shell, args []string) int {
	if len(args) < 2 {
		s.keepFDs = true
		return 0
	}
	if s.signals != nil {
		s.signals.dropHandlers()
	}
	s.onExit = ""
	s.last = s.runProgram(args[1:])
	s.flow = exits
	return s.last
}

// export is export and readonly.
func export(s *shell, args []string) int {
	for _, a := range args[1:] {
		name, value, ok := strings.Cut(a, "=")
		if strings.HasPrefix(name, "-") {
			return s.fail("%s %s is not supported", args[0], name)
		}
		if ok && !s.set(name, value) {
			return s.last
		}
		v := s.vars[name]
		if args[0] == "export" {
			v.Exported = true
		} else {
			v.ReadOnly = true
		}
		v.Kind = expand.String
		s.vars[name] = v
	}
	return 0
}

func local(s *shell, args []string) int {
	if len(s.locals) == 0 {
		return s.fail("local: not in a function")
	}
	for _, a := range args[1:] {
		name, value, ok := strings.Cut(a, "=")
		before := s.locals[len(s.locals)-1]
		if _, again := before[name]; !again {
			before[name] = s.vars[name]
		}
		if !ok {
			delete(s.vars, name)
		} else if !s.set(name, value) {
			return s.last
		}
	}
	return 0
}

func unset(s *shell, args []string) int {
	args = args[1:]
	functions := len(args) > 0 && args[0] == "-f"
	for _, name := range args {
		switch {
		case name == "-f" || name == "-v":
		case functions:
			delete(s.funcs, name)
		case s.vars[name].ReadOnly:
			return s.fail("unset: %s: %v", name, errReadOnly)
		default:
			delete(s.vars, name)
		}
	}
	return 0
}

// set sets options and the positional parameters.
func set(s *shell, args []string) int {
	if len(args) == 1 {
		return s.fail("set without arguments is not supported")
	}
	for args = args[1:]; len(args) > 0; args = args[1:] {
		a := args[0]
		switch {
		case a == "--":
			s.args = args[1:]
			return 0
		case len(a) < 2 || a[0] != '-' && a[0] != '+':
			s.args = args
			return 0
		}
		for _, o := range a[1:] {
			name := string(o)
			if o == 'o' {
				if len(args) < 2 {
					return s.fail("set -o without a name is not supported")
				}
				args = args[1:]
				name = args[0]
			}
			if !s.option(name, a[0] == '-') {
				return s.fail("set: option %s is not supported", name)
			}
		}
	}
	return 0
}

func shift(s *shell, args []string) int {
	n := 1
	if len(args) > 1 {
		var err error
		if n, err = strconv.Atoi(args[1]); err != nil || n < 0 {
			return s.fail("shift: Illegal number: %s", args[1])
		}
	}
	if n > len(s.args) {
		return 1
	}
	s.args = s.args[n:]
	return 0
}

func cd(s *shell, args []string) int {
	to := s.get("HOME")
	if to == "" {
		to = "/"
	}
	if len(args) > 1 {
		to = args[1]
	}
	if to == "-" {
		to = s.get("OLDPWD")
	}
	info, err := s.p.cfg.Files.Stat(s.path(to))
	if err == nil && !info.IsDir() {
		s.errorf("sh: cd: can't cd to %s: Not a directory", to)
		return 2
	}
	if err != nil {
		s.errorf("sh: cd: can't cd to %s: %s", to, reason(err))
		return 2
	}
	s.set("OLDPWD", s.dir)
	s.dir = s.path(to)
	s.set("PWD", s.dir)
	return 0
}

// source runs a file in the shell itself.
func source(s *shell, args []string) int {
	if len(args) < 2 {
		return s.fail("%s: a file is required", args[0])
	}
	b, err := s.p.cfg.Files.ReadFile(s.path(args[1]))
	if err != nil {
		return s.fail("%s: can't open '%s': %s", args[0], args[1], reason(err))
	}
	if s.calls >= maxCalls {
		return s.fail("files source each other more than %d deep", maxCalls)
	}
	before := s.args
	if len(args) > 2 {
		s.args = args[2:]
	}
	s.calls++
	s.last = 0
	s.script(string(b))
	s.calls--
	if len(args) > 2 {
		s.args = before
	}
	if s.flow == returns {
		s.flow = onward
	}
	return s.last
}

// command runs a command, but no function of its name; or -v prints where the command is.
func command(s *shell, args []string) int {
	if args = args[1:]; len(args) == 0 {
		return 0
	}
	if args[0] == "-v" && len(args) > 1 {
		where, ok := s.where(args[1])
		if !ok {
			return 127
		}
		return s.print(where + "\n")
	}
	if strings.HasPrefix(args[0], "-") {
		return s.fail("command %s is not supported", args[0])
	}
	if b := builtin(args[0]); b != nil {
		return b(s, args)
	}
	return s.runProgram(args)
}

func (s *shell) where(name string) (string, bool) {
	if s.funcs[name] != nil || builtin(name) != nil {
		return name, true
	}
	if s.p.lookup(name) != nil {
		if strings.Contains(name, "/") {
			return name, true
		}
		return "/bin/" + name, true
	}
	found, err := s.executable(name)
	if err != nil {
		return "", false
	}
	return found[len(found)-1], true
}

// kind is the command type.
func kind(s *shell, args []string) int {
	code := 0
	for _, name := range args[1:] {
		where, ok := s.where(name)
		if !ok {
			s.errorf("sh: type: %s: not found", name)
			code = 127
			continue
		}
		code = max(code, s.print(name+" is "+where+"\n"))
	}
	return code
}

// kill sends a signal to process 1, to this shell or to a job.
func kill(s *shell, args []string) int {
	n, pids := SIGTERM, args[1:]
	if len(pids) > 0 && strings.HasPrefix(pids[0], "-") && pids[0] != "--" {
		name := pids[0][1:]
		if name == "s" && len(pids) > 1 {
			pids = pids[1:]
			name = pids[0]
		}
		var ok bool
		if n, ok = ParseSignal(name); !ok {
			s.errorf("sh: kill: bad signal name '%s'", name)
			return 1
		}
		pids = pids[1:]
	}
	if len(pids) == 0 {
		s.errorf("sh: kill: a process ID is required")
		return 1
	}
	code := 0
	for _, a := range pids {
		if pid, err := strconv.Atoi(a); err != nil || !s.send(pid, n) {
			s.errorf("sh: can't kill pid %s: No such process", a)
			code = 1
		}
	}
	return code
}

// send sends a signal to a container process. It returns false if there is no such process. Signal 0 only asks.
func (s *shell) send(pid int, n Signal) bool {
	j := s.p.jobs.find(pid)
	switch {
	case j == nil && pid != 1 && pid != s.pid:
		return false
	case n == 0:
	case j != nil:
		j.signals.send(n)
	case pid == 1 && s.p.cfg.Kill != nil:
		s.p.cfg.Kill(n)
	case pid == 1:
		s.p.SignalInside(n)
	default:
		s.p.Signal(n)
	}
	return true
}

// read reads a line into variables.
func read(s *shell, args []string) int {
	raw := false
	for args = args[1:]; len(args) > 0 && strings.HasPrefix(args[0], "-"); args = args[1:] {
		switch args[0] {
		case "-r":
			raw = true
		case "-p":
			if args = args[1:]; len(args) > 0 {
				s.errorf("%s", args[0])
			}
		default:
			return s.fail("read %s is not supported", args[0])
		}
	}
	if s.fds[0].r == nil {
		return 1
	}
	line, err := readLine(s.fds[0].r)
	for !raw && err == nil && strings.HasSuffix(line, `\`) && !strings.HasSuffix(line, `\\`) {
		var more string
		more, err = readLine(s.fds[0].r)
		line = strings.TrimSuffix(line, `\`) + more
	}
	if len(args) == 0 {
		args = []string{"REPLY"}
	}
	values := expand.ReadFields(s.cfg, line, len(args), raw)
	for i, name := range args {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		if !s.set(name, value) {
			return s.last
		}
	}
	return oneIf(err != nil)
}
