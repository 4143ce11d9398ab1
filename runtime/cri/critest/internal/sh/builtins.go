package sh

import (
	"fmt"
	"strconv"
	"strings"
)

// builtin returns a command that is part of the shell only.
func builtin(name string) applet {
	switch name {
	case ":":
		return func(*shell, []string, stdio) int { return 0 }
	case "exit":
		return exit
	case "trap":
		return trap
	case "wait":
		return wait
	case "exec":
		return exec
	case "export":
		return export
	}
	return nil
}

func exit(s *shell, args []string, io stdio) int {
	code := s.last
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			fmt.Fprintf(io.err, "sh: exit: illegal number: %s\n", args[1])
			n = 2
		}
		code = n & 0xff
	}
	s.exit = true
	return code
}

// trap sets the action of signals. The empty action ignores them; - restores the default. In the
// background, trap has no effect.
func trap(s *shell, args []string, io stdio) int {
	if len(args) < 3 {
		fmt.Fprintln(io.err, "sh: only trap ACTION SIGNAL... is understood")
		return 2
	}
	for _, name := range args[2:] {
		n, ok := ParseSignal(name)
		if !ok {
			fmt.Fprintf(io.err, "sh: trap: %s: invalid signal specification\n", name)
			return 1
		}
		s.setTrap(n, args[1])
	}
	return 0
}

func (s *shell) setTrap(n Signal, action string) {
	if s.child {
		return
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if action == "-" {
		delete(s.p.traps, n)
		return
	}
	s.p.traps[n] = action
}

// wait waits for the background jobs of this shell. A trapped signal ends it.
func wait(s *shell, _ []string, io stdio) int {
	for _, done := range s.mine {
		for waiting := true; waiting; {
			wake := s.p.wake
			if s.child {
				wake = nil
			}
			select {
			case <-done:
				waiting = false
			case <-s.ctx.Done():
				return 0
			case <-wake:
				if n := s.runTraps(io); n != 0 && !s.exit {
					return exitBySignal(n)
				}
				if s.exit {
					return s.last
				}
			}
		}
	}
	s.mine = nil
	return 0
}

// exec replaces the shell: the shell's handlers are dropped, and ignored signals remain ignored.
func exec(s *shell, args []string, io stdio) int {
	if len(args) < 2 {
		return 0
	}
	if !s.child {
		s.p.mu.Lock()
		for n, action := range s.p.traps {
			if action != "" {
				delete(s.p.traps, n)
			}
		}
		s.p.mu.Unlock()
	}
	code := s.runArgs(args[1:], io)
	s.exit = true
	return code
}

func export(s *shell, args []string, _ stdio) int {
	for _, a := range args[1:] {
		if name, value, ok := strings.Cut(a, "="); ok {
			s.env[name] = value
		}
	}
	return 0
}
