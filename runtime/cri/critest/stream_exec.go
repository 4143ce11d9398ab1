package critest

import (
	"io"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serveExec runs a command for whoever has connected. It is killed when they go.
func (s service) serveExec(v *visit, c *container, req *runtimeapi.ExecRequest) {
	in := newInput()
	if !req.GetStdin() {
		in.close()
	}
	ch, err := openChannels(v, count(req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()), in, true)
	if err != nil {
		return // which was answered
	}
	io := console{in: in, out: wanted(ch, channelStdout, req.GetStdout()), errs: wanted(ch, channelStderr, req.GetStderr()), sizes: ch.sizes}
	if req.GetTty() {
		io.errs, io.tty = io.out, true
	}
	p, err := s.newExec(c, req.GetCmd(), io)
	if err != nil {
		ch.end(0, err)
		return
	}
	code, err := runExec(ch.ctx, c, p)
	ch.end(code, err)
}

// count is how many streams there are: those that are wanted, and one for how it ends.
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

// serveAttach tells whoever has connected what the container's process prints, until
// that ends or they go.
func (s service) serveAttach(v *visit, c *container, req *runtimeapi.AttachRequest) {
	in := c.stdin
	if !req.GetStdin() {
		in = nil
	}
	ch, err := openChannels(v, count(req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()), in, in != nil && c.config.GetStdinOnce())
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
