package critest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/base/websocket"
)

// streamHost is where the URLs of streams lead, to DialStream, unless ServeStreams was called.
const streamHost = "critest"

// A stream is what one URL was given for. It returns when it has ended.
type stream func(*visit)

// A visit is a request for a stream, and the connection that it came on.
type visit struct {
	net.Conn
	read *bufio.Reader
	*http.Request
	ctx context.Context // ends with the runtime, and when that restarts
}

// accept makes a WebSocket of the connection.
func (v *visit) accept(protocols ...string) (*websocket.Conn, error) {
	ws, _, err := websocket.Accept(v.Conn, v.read, v.Request, protocols...)
	return ws, err
}

// streams are those that no client has connected to yet, and their server.
type streams struct {
	mu      sync.Mutex
	waiting map[string]stream // by path
	pipe    *pipe
	// address is where other processes reach the server, if there is one.
	address string
}

// Exec returns a URL for a command of the command language, or of Config.Programs, which runs next
// to the container's process once a client connects.
func (s service) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	c := s.container(req.GetContainerId())
	if c == nil {
		return nil, errNoContainer(req.GetContainerId())
	}
	if len(req.GetCmd()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "failed to exec in container: no command")
	}
	if err := s.checkStream(c, req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()); err != nil {
		return nil, err
	}
	url, err := s.offer(func(v *visit) { s.serveExec(v, c, req) })
	return &runtimeapi.ExecResponse{Url: url}, err
}

// Attach gives a URL for what the container's process prints from then on and, if the
// container has one, for its standard input.
func (s service) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	c := s.container(req.GetContainerId())
	if c == nil {
		return nil, errNoContainer(req.GetContainerId())
	}
	if err := s.checkStream(c, req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()); err != nil {
		return nil, err
	}
	url, err := s.offer(func(v *visit) { s.serveAttach(v, c, req) })
	return &runtimeapi.AttachResponse{Url: url}, err
}

// PortForward gives a URL for connections to what programs of the sandbox's containers
// listen on; see Command.Listen.
func (s service) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	sb := s.sandbox(req.GetPodSandboxId())
	if sb == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", req.GetPodSandboxId())
	}
	s.mu.Lock()
	ready := sb.ready()
	s.mu.Unlock()
	if !ready {
		return nil, status.Errorf(codes.Unavailable, "sandbox container %q is not running", sb.id)
	}
	url, err := s.offer(func(v *visit) { s.servePorts(v, sb, req.GetPort()) })
	return &runtimeapi.PortForwardResponse{Url: url}, err
}

// checkStream rejects what a runtime rejects before a client connects.
func (s service) checkStream(c *container, stdin, stdout, stderr, tty bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.state != runtimeapi.ContainerState_CONTAINER_RUNNING || !c.running:
		return status.Errorf(s.cfg.Like.execNotRunning(), "container is in %s state", c.state)
	case !stdin && !stdout && !stderr:
		return status.Error(codes.InvalidArgument, "one of stdin, stdout, or stderr must be set")
	case tty && stderr:
		return status.Error(codes.InvalidArgument, "tty and stderr cannot both be true")
	}
	return nil
}

// offer returns a URL that leads to a stream, once.
func (r *Runtime) offer(st stream) (url string, err error) {
	if _, err := r.streamPipe(); err != nil {
		return "", status.Error(codes.Unavailable, err.Error())
	}
	r.mu.Lock()
	path := "/" + r.newID()
	r.mu.Unlock()
	r.streams.mu.Lock()
	defer r.streams.mu.Unlock()
	r.streams.waiting[path] = st
	return "http://" + cmp.Or(r.streams.address, streamHost) + path, nil
}

// ServeStreams serves streams on a listener, too, to whose address the URLs lead from now on, so that an agent
// in another process reaches them. It returns at once. The listener ends with the runtime.
func (r *Runtime) ServeStreams(lis net.Listener) error {
	if err := r.start(func() { r.serveStreams(lis) }); err != nil {
		return err
	}
	r.streams.mu.Lock()
	defer r.streams.mu.Unlock()
	r.streams.address = lis.Addr().String()
	return nil
}

// DialStream connects to the runtime's streaming server, to which the URLs lead that
// Exec, Attach and PortForward give. It is in memory, and has the form of a dialer:
//
//	transport := &http.Transport{DialContext: rt.DialStream, DisableKeepAlives: true}
//
// The server speaks SPDY 3.1 and WebSocket.
func (r *Runtime) DialStream(ctx context.Context, _, address string) (net.Conn, error) {
	if host, _, _ := strings.Cut(address, ":"); host != streamHost {
		return nil, errors.New("critest: the address of a stream is not that of this runtime: " + address)
	}
	p, err := r.streamPipe()
	if err != nil {
		return nil, err
	}
	return p.dial(ctx)
}

// streamPipe starts the streaming server, once.
func (r *Runtime) streamPipe() (*pipe, error) {
	r.streams.mu.Lock()
	defer r.streams.mu.Unlock()
	if r.streams.pipe != nil {
		return r.streams.pipe, nil
	}
	p := newPipe()
	if err := r.start(func() { r.serveStreams(p) }); err != nil {
		return nil, err
	}
	r.streams.pipe, r.streams.waiting = p, map[string]stream{}
	return p, nil
}

// serveStreams serves streams until Close, one for a connection. It is no http.Server, so
// that programs with a runtime in memory are not larger by one.
func (r *Runtime) serveStreams(lis net.Listener) {
	var running sync.WaitGroup
	defer running.Wait()
	defer context.AfterFunc(r.life, func() { lis.Close() })()
	for {
		conn, err := lis.Accept()
		if err != nil {
			return // it was closed
		}
		r.mu.Lock()
		epoch := r.epoch
		r.mu.Unlock()
		running.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(epoch, func() { conn.Close() })()
			r.serveStream(epoch, conn)
		})
	}
}

// forgetStreams forgets the URLs that were given.
func (r *Runtime) forgetStreams() {
	r.streams.mu.Lock()
	defer r.streams.mu.Unlock()
	clear(r.streams.waiting)
}

func (r *Runtime) serveStream(epoch context.Context, conn net.Conn) {
	read := bufio.NewReader(conn)
	req, err := http.ReadRequest(read)
	if err != nil {
		return // the client requests no stream
	}
	r.streams.mu.Lock()
	st := r.streams.waiting[req.URL.Path]
	delete(r.streams.waiting, req.URL.Path)
	r.streams.mu.Unlock()
	if st == nil {
		_ = websocket.Refuse(conn, http.StatusNotFound, "there is no such stream, or not any more") // the client may have disconnected
		return
	}
	st(&visit{conn, read, req, epoch})
}
