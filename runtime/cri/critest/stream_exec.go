package critest

import (
	"io"
	"net/http"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serveExec runs a command for whoever has connected. It is killed when they go.
func (s service) serveExec(w http.ResponseWriter, r *http.Request, c *container, req *runtimeapi.ExecRequest) {
	in := newInput()
	if !req.GetStdin() {
		in.close()
	}
	ch, err := openChannels(w, r, in, true)
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

// wanted is what a stream of a process goes to.
func wanted(ch *channels, channel byte, is bool) io.Writer {
	if !is {
		return io.Discard
	}
	return ch.writer(channel)
}

// serveAttach tells whoever has connected what the container's process prints, until
// that ends or they go.
func (s service) serveAttach(w http.ResponseWriter, r *http.Request, c *container, req *runtimeapi.AttachRequest) {
	in := c.stdin
	if !req.GetStdin() {
		in = nil
	}
	ch, err := openChannels(w, r, in, in != nil && c.config.GetStdinOnce())
	if err != nil {
		return // which was answered
	}
	leave := c.audience.join(wanted(ch, channelStdout, req.GetStdout()), wanted(ch, channelStderr, req.GetStderr()))
	select {
	case <-c.exited:
	case <-ch.ctx.Done():
	}
	leave()
	ch.end(0, nil)
}

// An audience are those who are attached to a process.
type audience struct {
	mu     sync.Mutex
	joined map[*listener]bool
}

// A listener gets what is printed to stdout and to stderr.
type listener struct{ out, errs io.Writer }

func (a *audience) join(out, errs io.Writer) (leave func()) {
	l := &listener{out, errs}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.joined == nil {
		a.joined = map[*listener]bool{}
	}
	a.joined[l] = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.joined, l)
	}
}

func (a *audience) all() (list []*listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range a.joined {
		list = append(list, l)
	}
	return list
}

// A heard stream is written to a log and told to the audience. A process does not
// notice who has gone.
type heard struct {
	log      io.Writer
	audience *audience
	isErrs   bool
}

func (h heard) Write(b []byte) (int, error) {
	for _, l := range h.audience.all() {
		to := l.out
		if h.isErrs {
			to = l.errs
		}
		_, _ = to.Write(b)
	}
	return h.log.Write(b)
}
