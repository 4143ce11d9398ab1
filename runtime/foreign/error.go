package foreign

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// Error returns err if its text is one that [Line] does not change. Otherwise it returns another error with the
// changed text. That one wraps the well-known errors that err wraps, such as context.Canceled, fs.ErrNotExist or a
// syscall.Errno, and nothing else from err, because the text could be found and printed again.
func Error(err error) error { return ErrorWith(err, Line) }

// ErrorWith is Error with another function for the text, such as one that also removes secrets. With a nil function it returns err.
func ErrorWith(err error, change func(string) string) error {
	if err == nil || change == nil {
		return err
	}
	before := err.Error()
	after := change(before)
	if after == before {
		return err
	}
	return &bounded{text: after, known: knownErrors(err)}
}

type bounded struct {
	text  string
	known []error
}

func (e *bounded) Error() string   { return e.text }
func (e *bounded) Unwrap() []error { return e.known }

// knownErrors returns the errors without others' texts that err wraps.
func knownErrors(err error) (known []error) {
	for _, k := range []error{
		context.Canceled, context.DeadlineExceeded, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, fs.ErrInvalid,
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, errors.ErrUnsupported,
	} {
		if errors.Is(err, k) {
			known = append(known, k)
		}
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		known = append(known, number)
	}
	return known
}
