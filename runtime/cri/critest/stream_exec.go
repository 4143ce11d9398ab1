package critest

import (
	"io"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serveExec runs a command for a client, and kills it when the client disconnects.
func (s service) serveExec(v *visit, c *container, req *runtimeapi.ExecRequest) {
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
	ch, err := openChannels(v, count(req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()), to, true)
	if err != nil {
		return // which was answered
	}
	io := console{in: in, out: wanted(ch, channelStdout, req.GetStdout()), errs: wanted(ch, channelStderr, req.GetStderr()), sizes: ch.sizes}
	if req.GetTty() {
		shown.out = io.out
		io.out, io.tty = onTerminal{shown}, true
		io.errs = io.out
	}
	p, err := s.newExec(c, req.GetCmd(), io)
	if err != nil {
		ch.end(0, err)
		return
	}
	keys.control(p)
	hide := shown.show()
	code, err := runExec(ch.ctx, c, p)
	hide()
	ch.end(code, err)
}

// count returns the number of streams: the requested ones, and one for the status.
func count(wanted ...bool) int {
	n := 1
	for _, is := range wanted {
		if is {
			n++
		}
	}
	return n
}

// wanted is what a stream of a process goes to.
func wanted(ch *channels, channel byte, is bool) io.Writer {
	if !is {
		return io.Discard
	}
	return ch.writer(channel)
}

// serveAttach sends a client the output of the container's process, until the process ends or the
// client disconnects.
func (s service) serveAttach(v *visit, c *container, req *runtimeapi.AttachRequest) {
	in := c.stdin
	if !req.GetStdin() {
		in = nil
	}
	var to stdin = in
	if in != nil && c.keys != nil {
		to = c.keys
	}
	ch, err := openChannels(v, count(req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()), to, in != nil && c.config.GetStdinOnce())
	if err != nil {
		return // which was answered
	}
	l := newListener(req.GetStdout(), req.GetStderr())
	told := make(chan struct{})
	go func() {
		defer close(told)
		l.tell(ch)
	}()
	leave := c.audience.join(l)
	select {
	case <-c.exited:
	case <-ch.ctx.Done():
	}
	leave()
	<-told
	ch.end(0, nil)
}
