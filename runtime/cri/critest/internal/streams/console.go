package streams

import (
	"io"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
	"github.com/podsync/podsync/runtime/cri/critest/program"
)

// A Console is a process's input and output.
type Console struct {
	In        io.Reader // nil without a standard input
	Out, Errs io.Writer
	// TTY means that the process runs on a terminal. Sizes then has the terminal's newest size.
	TTY   bool
	Sizes <-chan program.Size

	keys *terminal // nil without a terminal or a standard input
}

// Control makes Ctrl-C on the terminal interrupt a process.
func (c Console) Control(p *sh.Process) {
	if c.keys != nil {
		c.keys.control(p)
	}
}

// Attached is the process in a container for Attach's clients: its standard input and its listeners.
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

// Console returns the process's console. The output also goes to out and errs. Their errors are ignored.
func (a *Attached) Console(out, errs io.Writer) Console {
	c := Console{Out: heard{out, &a.audience, Stdout}, Errs: heard{errs, &a.audience, Stderr}, TTY: a.tty, keys: a.keys}
	if a.in != nil {
		c.In = a.in
	}
	if echo := c.Out; a.keys != nil {
		a.keys.echoTo(func(keys []byte) { _, _ = echo.Write(keys) }) // the echo is part of the output
	}
	if a.tty {
		c.Out = onTerminal{c.Out}
		c.Errs = c.Out
	}
	return c
}
