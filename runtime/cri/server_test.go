package cri

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// server serves both CRI services over net.Pipe, which also works inside a synctest bubble. It can
// become unavailable and available again.
type server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	version *runtimeapi.VersionResponse
	stop    func(context.Context, *runtimeapi.StopContainerRequest) error
	pull    func(context.Context) error
	exec    func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error)

	authority string // the authority of the last Version call

	mu    sync.Mutex
	conns *pipes // nil while the server is unavailable
	grpc  *grpc.Server
}

func newServer(t *testing.T) *server {
	s := &server{version: &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1.0", RuntimeApiVersion: "v1"}}
	s.start()
	t.Cleanup(s.shutdown)
	return s
}

func (s *server) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	s.grpc = grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s.grpc, s)
	runtimeapi.RegisterImageServiceServer(s.grpc, s)
	go s.grpc.Serve(s.conns)
}

func (s *server) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = nil
	s.grpc.Stop()
}

func (s *server) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	if conns == nil {
		return nil, errors.New("connection refused")
	}
	return conns.dial(ctx)
}

func (s *server) client(t *testing.T, c Config) *Client {
	t.Helper()
	c.Dialer = s.dial
	client := must.Get(Dial(t.Context(), c))(t)
	t.Cleanup(func() { client.Close() })
	return client
}

func (s *server) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		s.authority = strings.Join(md.Get(":authority"), " ")
	}
	if s.version == nil {
		return nil, status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService")
	}
	return s.version, nil
}

func (s *server) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return &runtimeapi.StopContainerResponse{}, s.stop(ctx, r)
}

func (s *server) PullImage(ctx context.Context, _ *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	return &runtimeapi.PullImageResponse{}, s.pull(ctx)
}

func (s *server) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return s.exec(ctx, r)
}

// pipes is a net.Listener of net.Pipe connections.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accept <- server:
		return client, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
