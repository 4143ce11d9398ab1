package streams

import (
	"context"
	"io"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// Request is an ExecRequest or an AttachRequest.
type Request interface {
	GetStdin() bool
	GetStdout() bool
	GetStderr() bool
	GetTty() bool
}

// Exec returns the stream of a process. start creates the process for a console. run runs it until it ends by itself or
// its context ends, which is when the client disconnects.
func Exec(req Request, start func(Console) (*sh.Process, error), run func(context.Context, *sh.Process) (int, error)) Stream {
	return func(v *visit) {
		in := newInput()
		if !req.GetStdin() {
			in.close()
		}
		var to stdin = in
		shown := newScreen()
		keys := newTerminal()
		if req.GetTty() {
			keys.feed(in)
			keys.echoTo(shown.echo)
			to = keys
		}
		ch, err := openChannels(v, count(req), to, true)
		if err != nil {
			return // openChannels has sent the response
		}
		c := Console{In: in, Out: wanted(ch, Stdout, req.GetStdout()), Errs: wanted(ch, Stderr, req.GetStderr()), Sizes: ch.sizes}
		if req.GetTty() {
			shown.out = c.Out
			c.Out, c.TTY, c.keys = onTerminal{shown}, true, keys
			c.Errs = c.Out
		}
		p, err := start(c)
		if err != nil {
			ch.end(0, err)
			return
		}
		c.Control(p)
		hide := shown.show()
		code, err := run(ch.ctx, p)
		hide()
		ch.end(code, err)
	}
}

// count returns the number of streams: the requested ones, and one for the status.
func count(req Request) int {
	n := 1
	for _, is := range []bool{req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()} {
		if is {
			n++
		}
	}
	return n
}

// wanted returns a process stream's destination.
func wanted(ch *channels, channel byte, is bool) io.Writer {
	if !is {
		return io.Discard
	}
	return ch.writer(channel)
}

// Attach returns the stream of a client that receives the further output from the process, until exited is closed or
// the client disconnects. If once is set, the end of the client's input ends the process's input.
func (a *Attached) Attach(req Request, once bool, exited <-chan struct{}) Stream {
	return func(v *visit) {
		in := a.in
		if !req.GetStdin() {
			in = nil
		}
		var to stdin = in
		if in != nil && a.keys != nil {
			to = a.keys
		}
		l := newListener(req.GetStdout(), req.GetStderr())
		leave := a.audience.join(l) // before the process reads the client's input, or its output would be lost
		ch, err := openChannels(v, count(req), to, in != nil && once)
		if err != nil {
			leave()
			return // openChannels has sent the response
		}
		told := make(chan struct{})
		go func() {
			defer close(told)
			l.send(ch)
		}()
		select {
		case <-exited:
		case <-ch.ctx.Done():
		}
		leave()
		<-told
		ch.end(0, nil)
	}
}
