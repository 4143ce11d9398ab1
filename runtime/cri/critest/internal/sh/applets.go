package sh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// applets returns a program that exists as a file in the image. Each of them is a program of busybox,
// too.
func applets(name string) applet {
	switch name {
	case "sh", "ash":
		return runShell
	case "sleep":
		return sleep
	case "echo":
		return echo
	case "printf":
		return printf
	case "cat":
		return cat
	case "touch":
		return touch
	case "rm":
		return remove
	case "test", "[", "[[":
		return test
	case "expr":
		return expr
	case "env":
		return env
	case "kill":
		return kill
	case "true", "mkdir":
		return func(*shell, []string, stdio) int { return 0 }
	case "false":
		return func(*shell, []string, stdio) int { return 1 }
	}
	return nil
}

// runShell runs sh -c SCRIPT or sh -x -c SCRIPT, or the lines of the standard input. As a child it has variables of its
// own; as the main command it is the process itself.
func runShell(s *shell, args []string, io stdio) int {
	if len(args) == 1 {
		return runLines(s, io)
	}
	trace := args[1] == "-x"
	if trace {
		args = args[1:]
	}
	if len(args) < 3 || args[1] != "-c" {
		fmt.Fprintln(io.err, "sh: only sh, sh -c SCRIPT and sh -x -c SCRIPT are understood")
		return 2
	}
	if !s.main {
		s = s.fork()
	}
	s.main, s.trace = false, trace
	return s.script(args[2], io)
}

// runLines runs each line once it is complete. An invalid line fails alone, as in an interactive
// shell.
func runLines(s *shell, io stdio) int {
	if !s.main {
		s = s.fork()
	}
	typed := s.main && s.p.cfg.Terminal
	s.main = false
	if !typed {
		_ = s.runLinesOf(s.p.cfg.Stdin, io, s.list)
		return s.last
	}
	s.p.mu.Lock()
	s.p.typed = true
	s.p.mu.Unlock()
	for errors.Is(s.runLinesOf(s.p.cfg.Stdin, io, s.typed), ErrInterrupted) && !s.stopped() { // Ctrl-C does not end a shell
		fmt.Fprint(io.err, "\n")
	}
	return s.last
}

// runLinesOf runs each line that it reads, until the first error.
func (s *shell) runLinesOf(r io.Reader, io stdio, run func(list, stdio)) error {
	lines := bufio.NewScanner(r)
	for !s.stopped() && lines.Scan() {
		l, err := parse(lines.Text())
		if err != nil {
			fmt.Fprintf(io.err, "sh: syntax error: %v\n", err)
			s.last = 2
			continue
		}
		run(l, io)
	}
	return lines.Err()
}

// typed runs a line that was typed at a terminal. Interrupt ends the line, but not the shell.
func (s *shell) typed(l list, io stdio) {
	ctx, end := context.WithCancel(s.p.ctx)
	s.ctx = ctx
	s.p.mu.Lock()
	s.p.stop = end
	s.p.mu.Unlock()
	s.list(l, io)
	if ctx.Err() != nil {
		s.last = exitBySignal(SIGINT)
		fmt.Fprint(io.err, "\n")
	}
	end()
	s.ctx = s.p.ctx
}

func sleep(s *shell, args []string, io stdio) int {
	var total time.Duration
	for _, a := range args[1:] {
		d, err := duration(a)
		if err != nil {
			fmt.Fprintf(io.err, "sleep: invalid number '%s'\n", a)
			return 1
		}
		if total += d; total < 0 || d == forever {
			total = forever
			break
		}
	}
	s.sleep(total)
	return 0
}

// duration parses seconds, or a number with one of the suffixes s, m, h and d.
func duration(a string) (time.Duration, error) {
	if a == "infinity" || a == "inf" {
		return forever, nil
	}
	unit := time.Second
	if n := len(a) - 1; n > 0 {
		if u, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[a[n]]; ok {
			unit, a = u, a[:n]
		}
	}
	f, err := strconv.ParseFloat(a, 64)
	if err != nil || f < 0 {
		return 0, fmt.Errorf("invalid number %q", a)
	}
	if f*float64(unit) >= float64(forever) {
		return forever, nil
	}
	return time.Duration(f * float64(unit)), nil
}

func echo(_ *shell, args []string, io stdio) int {
	args, end := args[1:], "\n"
	if len(args) > 0 && args[0] == "-n" {
		args, end = args[1:], ""
	}
	return wrote(fmt.Fprint(io.out, strings.Join(args, " ")+end))
}

// printf supports %s, %d and %%, and the escapes \n, \t and \\.
func printf(_ *shell, args []string, io stdio) int {
	if len(args) < 2 {
		return 1
	}
	format := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(args[1])
	rest := args[2:]
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		switch {
		case format[i] == '%':
			b.WriteByte('%')
		case len(rest) > 0:
			b.WriteString(rest[0])
			rest = rest[1:]
		case format[i] == 'd':
			b.WriteByte('0')
		}
	}
	return wrote(fmt.Fprint(io.out, b.String()))
}

func wrote(_ int, err error) int {
	if err != nil {
		return 1
	}
	return 0
}

func cat(s *shell, args []string, io stdio) int {
	code := 0
	if len(args) == 1 {
		return copied(io.out, s.p.cfg.Stdin)
	}
	for _, name := range args[1:] {
		b, err := s.p.cfg.Files.ReadFile(file(name))
		if err != nil {
			fmt.Fprintf(io.err, "cat: can't open '%s': No such file or directory\n", name)
			code = 1
			continue
		}
		code = max(code, wrote(io.out.Write(b)))
	}
	return code
}

func copied(to io.Writer, from io.Reader) int {
	if _, err := io.Copy(to, from); err != nil {
		return 1
	}
	return 0
}

func touch(s *shell, args []string, io stdio) int {
	for _, name := range args[1:] {
		if err := s.p.cfg.Files.WriteFile(file(name), nil, true); err != nil {
			fmt.Fprintf(io.err, "touch: %s: %v\n", name, err)
			return 1
		}
	}
	return 0
}

func remove(s *shell, args []string, io stdio) int {
	code, force := 0, false
	for _, name := range args[1:] {
		if strings.HasPrefix(name, "-") {
			force = force || strings.Contains(name, "f")
			continue
		}
		if err := s.p.cfg.Files.Remove(file(name)); err != nil && !force {
			fmt.Fprintf(io.err, "rm: can't remove '%s': No such file or directory\n", name)
			code = 1
		}
	}
	return code
}

func env(s *shell, _ []string, io stdio) int {
	var lines []string
	for k, v := range s.env {
		lines = append(lines, k+"="+v+"\n")
	}
	slices.Sort(lines)
	return wrote(fmt.Fprint(io.out, strings.Join(lines, "")))
}

// kill sends a signal to process 1, which is also the value of $$.
func kill(s *shell, args []string, io stdio) int {
	n, pids := SIGTERM, args[1:]
	if len(pids) > 0 && strings.HasPrefix(pids[0], "-") {
		var ok bool
		if n, ok = ParseSignal(pids[0][1:]); !ok {
			fmt.Fprintf(io.err, "kill: bad signal name '%s'\n", pids[0][1:])
			return 1
		}
		pids = pids[1:]
	}
	if len(pids) != 1 || pids[0] != "1" {
		fmt.Fprintln(io.err, "kill: only process 1 is understood")
		return 1
	}
	s.p.kill(n)
	return 0
}
