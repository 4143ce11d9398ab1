// Package program has the programs that a test writes in Go and that the containers of an in-memory
// runtime run: see Config.Programs of [github.com/podsync/podsync/runtime/cri/critest].
package program

import (
	"context"
	"io"
	"net"
)

// Command is one run of a [Program].
type Command struct {
	Args           []string // the first is the program's name as it was called
	Env            map[string]string
	Stdin          io.Reader // empty if no client is attached
	Stdout, Stderr io.Writer
	// TTY means that the program runs on a terminal. Sizes receives its size whenever the size changes.
	TTY   bool
	Sizes <-chan Size
	// Signals delivers the numbers of the signals that are sent to the process,
	// except SIGKILL, which ends the program's context. A program that never
	// reads it ignores them.
	Signals <-chan int
	files   Files
	listen  func(port int32) (net.Listener, error)
}

// New returns a copy of c that has a container's files, and that listens on its pod's ports with listen. Only a
// runtime needs it.
func New(c Command, files Files, listen func(port int32) (net.Listener, error)) *Command {
	c.files, c.listen = files, listen
	return &c
}

// Files are a container's files. Names are absolute.
type Files interface {
	ReadFile(name string) ([]byte, error)
	// WriteFile creates the file if it does not exist. It appends if add is true.
	WriteFile(name string, data []byte, add bool) error
}

// Size is a terminal's size, in characters.
type Size struct{ Width, Height uint16 }

// Listen listens on a pod port, which only PortForward reaches. The listener is in memory. The
// caller must close it.
func (c *Command) Listen(port int32) (net.Listener, error) { return c.listen(port) }

// ReadFile reads a file of the container.
func (c *Command) ReadFile(name string) ([]byte, error) { return c.files.ReadFile(name) }

// WriteFile writes a file of the container.
func (c *Command) WriteFile(name string, data []byte) error {
	return c.files.WriteFile(name, data, false)
}

// Program is a command written in Go. It returns the exit code. When ctx ends, the process has been
// killed, and the Program must return soon.
type Program func(ctx context.Context, c *Command) int
