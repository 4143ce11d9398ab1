package streams

import (
	"io"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
	"github.com/podsync/podsync/runtime/cri/critest/program"
)

// A Console is what a process reads from and prints to.
type Console struct {
	In        io.Reader // nil without a standard input
	Out, Errs io.Writer
	// TTY is set if the process runs on a terminal, and Sizes has the newest size of the terminal.
	TTY   bool
	Sizes <-chan program.Size

	keys *terminal // nil without a terminal or a standard input
}

// Control has Ctrl-C on the terminal interrupt a process.
func (c Console) Control(p *sh.Process) {
	if c.keys != nil {
		c.keys.control(p)
	}
}

// Attached is the process of a container as the callers of Attach see it: its standard input, and those who listen.
type Attached struct {
	in       *input // nil without a standard input
	keys     *terminal
	tty      bool
	audience audience
}

// NewAttached returns the Attached of a container, with or without a standard input and a terminal.
func NewAttached(stdin, tty bool) *Attached {
	a := &Attached{tty: tty}
	if stdin {
		a.in = newInput()
	}
	if stdin && tty {
		a.keys = newTerminal()
		a.keys.feed(a.in)
	}
	return a
}

// Console returns the console of the process. What the process prints goes to out and errs, too, which keep no errors.
func (a *Attached) Console(out, errs io.Writer) Console {
	c := Console{Out: heard{out, &a.audience, Stdout}, Errs: heard{errs, &a.audience, Stderr}, TTY: a.tty, keys: a.keys}
	if a.in != nil {
		c.In = a.in
	}
	if echo := c.Out; a.keys != nil {
		a.keys.echoTo(func(keys []byte) { _, _ = echo.Write(keys) }) // part of the output
	}
	if a.tty {
		c.Out = onTerminal{c.Out}
		c.Errs = c.Out
	}
	return c
}
