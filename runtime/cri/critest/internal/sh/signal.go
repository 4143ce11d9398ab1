package sh

import (
	"strconv"
	"strings"
	"sync"
)

// Signal is a Linux signal number.
type Signal int

// Signals that this package treats specially.
const (
	SIGHUP  Signal = 1
	SIGINT  Signal = 2
	SIGQUIT Signal = 3
	SIGKILL Signal = 9
	SIGUSR1 Signal = 10
	SIGUSR2 Signal = 12
	SIGPIPE Signal = 13
	SIGTERM Signal = 15
)

// exitBySignal returns the exit code that a shell reports for a process that a signal ended.
func exitBySignal(s Signal) int { return 128 + int(s) }

// signalNames are the names of Linux's signals, by number.
const signalNames = "EXIT HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU " +
	"URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"

// ParseSignal parses a signal as trap and kill accept it: TERM, SIGTERM or 15.
func ParseSignal(s string) (Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return Signal(n), n >= 0 && n < 65
	}
	s = strings.TrimPrefix(strings.ToUpper(s), "SIG")
	for n, name := range strings.Fields(signalNames) {
		if name == s {
			return Signal(n), true
		}
	}
	return 0, false
}

// ignoredByDefault reports whether a signal is CHLD, CONT, URG or WINCH.
func ignoredByDefault(n Signal) bool { return n == 17 || n == 18 || n == 23 || n == 28 }

// A signals is the disposition of one process for signals, and the signals that it has not handled.
type signals struct {
	mu      sync.Mutex
	init    bool              // process 1 of a PID namespace ignores signals without a handler
	traps   map[Signal]string // "" ignores the signal
	pending []Signal          // trapped, action not yet run
	wake    chan struct{}     // receives when a signal becomes pending
	program chan int          // not nil while a Program runs in the foreground
	die     func(Signal)      // ends the process; called with mu held
}

func newSignals(init bool, die func(Signal)) *signals {
	return &signals{init: init, traps: map[Signal]string{}, wake: make(chan struct{}, 1), die: die}
}

func (s *signals) send(n Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	action, trapped := s.traps[n]
	switch {
	case n == SIGKILL:
		s.die(n)
	case trapped && action == "":
	case trapped:
		s.pending = append(s.pending, n)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	case s.program != nil:
		select {
		case s.program <- int(n):
		default: // a program that does not read its signals ignores them
		}
	case s.init || ignoredByDefault(n):
	default:
		s.die(n)
	}
}

// set sets a signal's action; - restores the default.
func (s *signals) set(n Signal, action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if action == "-" {
		delete(s.traps, n)
		return
	}
	s.traps[n] = action
}

// dropHandlers is what exec does: handlers are dropped, and ignored signals remain ignored.
func (s *signals) dropHandlers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, action := range s.traps {
		if action != "" {
			delete(s.traps, n)
		}
	}
}

// next removes the first pending signal and returns its action.
func (s *signals) next() (n Signal, action string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return 0, "", false
	}
	n = s.pending[0]
	s.pending = s.pending[1:]
	return n, s.traps[n], true
}

// foreground makes a Program receive the signals until the returned function is called.
func (s *signals) foreground() (received <-chan int, done func()) {
	c := make(chan int, 16)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = c
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.program = nil
	}
}
