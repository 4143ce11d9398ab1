package sh

import (
	"strconv"
	"strings"
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
	SIGTERM Signal = 15
)

// exitBySignal returns the exit code that a shell reports for a process that a signal ended.
func exitBySignal(s Signal) int { return 128 + int(s) }

// ParseSignal parses a signal as trap and kill accept it: TERM, SIGTERM or 15.
func ParseSignal(s string) (Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return Signal(n), n > 0 && n < 65
	}
	switch strings.TrimPrefix(strings.ToUpper(s), "SIG") {
	case "HUP":
		return SIGHUP, true
	case "INT":
		return SIGINT, true
	case "QUIT":
		return SIGQUIT, true
	case "KILL":
		return SIGKILL, true
	case "USR1":
		return SIGUSR1, true
	case "USR2":
		return SIGUSR2, true
	case "TERM":
		return SIGTERM, true
	}
	return 0, false
}
