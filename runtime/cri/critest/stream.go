package critest

import (
	"context"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

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
	url, err := s.offer(streams.Exec(req, func(io streams.Console) (*sh.Process, error) { return s.newExec(c, req.GetCmd(), io) },
		func(ctx context.Context, p *sh.Process) (int, error) { return runExec(ctx, c, p) }))
	return &runtimeapi.ExecResponse{Url: url}, err
}

// Attach returns a URL for the further output of the container's process and, if the container has one,
// for its standard input.
func (s service) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	c := s.container(req.GetContainerId())
	if c == nil {
		return nil, errNoContainer(req.GetContainerId())
	}
	if err := s.checkStream(c, req.GetStdin(), req.GetStdout(), req.GetStderr(), req.GetTty()); err != nil {
		return nil, err
	}
	url, err := s.offer(c.attached.Attach(req, c.config.GetStdinOnce(), c.exited))
	return &runtimeapi.AttachResponse{Url: url}, err
}

// PortForward returns a URL for connections to the ports that programs of the sandbox's containers
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
	url, err := s.offer(streams.Ports(req.GetPort(), func(ctx context.Context, port int32) (net.Conn, error) { return s.connect(ctx, sb, port) }))
	return &runtimeapi.PortForwardResponse{Url: url}, err
}

// checkStream rejects requests that a runtime rejects before a client connects.
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

// offer returns a URL at which a stream can be requested once.
func (r *Runtime) offer(st streams.Stream) (url string, err error) {
	if _, err := r.streamPipe(); err != nil {
		return "", status.Error(codes.Unavailable, err.Error())
	}
	r.mu.Lock()
	id := r.newID()
	r.mu.Unlock()
	return r.streams.Offer(id, st), nil
}

// ServeStreams serves streams also on a listener. From now on, URLs have the listener's address, so that an agent
// in another process reaches them. It returns immediately. The listener is closed with the runtime.
func (r *Runtime) ServeStreams(lis net.Listener) error {
	if err := r.serveStreams(lis); err != nil {
		return err
	}
	r.streams.SetAddress(lis.Addr().String())
	return nil
}

// DialStream connects to the runtime's in-memory streaming server, at which the URLs of Exec, Attach and
// PortForward point. Use it to dial in an HTTP transport:
//
//	transport := &http.Transport{DialContext: rt.DialStream, DisableKeepAlives: true}
//
// The server speaks SPDY 3.1 and WebSocket.
func (r *Runtime) DialStream(ctx context.Context, _, address string) (net.Conn, error) {
	if host, _, _ := strings.Cut(address, ":"); host != streams.Host && address != r.streams.Address() {
		return nil, errors.New("critest: the address of a stream is not that of this runtime: " + address)
	}
	p, err := r.streamPipe()
	if err != nil {
		return nil, err
	}
	return p.dial(ctx)
}

// streamPipe returns DialStream's pipe, and starts the in-memory streaming server at the first call.
func (r *Runtime) streamPipe() (*pipe, error) {
	r.streaming.Lock()
	defer r.streaming.Unlock()
	if r.streamsPipe != nil {
		return r.streamsPipe, nil
	}
	p := newPipe()
	if err := r.serveStreams(p); err != nil {
		return nil, err
	}
	r.streamsPipe = p
	return p, nil
}

// serveStreams serves streams on a listener until Close.
func (r *Runtime) serveStreams(lis net.Listener) error {
	return r.start(func() {
		r.streams.Serve(r.life, lis, func() context.Context {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.epoch
		})
	})
}
