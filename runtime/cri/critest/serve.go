package critest

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Serve answers CRI calls on a listener, which it closes, until Close. Any
// listener will do: of a unix socket, of bufconn, of a TCP port.
func (r *Runtime) Serve(lis net.Listener) error {
	if lis == nil {
		return errors.New("critest: no listener")
	}
	server, err := r.grpcServer()
	if err != nil {
		return errors.Join(err, lis.Close())
	}
	err = server.Serve(watchedListener{lis, r})
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// grpcServer makes the server, once.
func (r *Runtime) grpcServer() (*grpc.Server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.server != nil: // after Close it refuses to serve
	case r.closed:
		return nil, errClosed
	default:
		r.server = grpc.NewServer(grpc.UnaryInterceptor(r.unary), grpc.StreamInterceptor(r.stream), grpc.WaitForHandlers(true))
		runtimeapi.RegisterRuntimeServiceServer(r.server, service{Runtime: r})
		runtimeapi.RegisterImageServiceServer(r.server, service{Runtime: r})
	}
	return r.server, nil
}

var errClosed = errors.New("critest: the runtime is closed")

// Listen serves a unix socket until Close and returns its endpoint, as an
// agent's configuration has it: unix:///path. The socket's path is limited to
// about a hundred bytes by the system.
func (r *Runtime) Listen(path string) (endpoint string, err error) {
	lis, err := net.Listen("unix", path)
	if err != nil {
		return "", fmt.Errorf("critest: %w", err)
	}
	if err := r.start(func() { _ = r.Serve(lis) }); err != nil {
		return "", errors.Join(err, lis.Close())
	}
	return "unix://" + path, nil
}

// Dial connects to the runtime in this process, without a socket. The caller
// closes the connection; several may be made.
func (r *Runtime) Dial(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	p, err := r.dialer()
	if err != nil {
		return nil, err
	}
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dial(ctx) }),
	}, opts...)
	return grpc.NewClient("passthrough:///critest", opts...)
}

// dialer starts to serve the pipe that Dial uses, once.
func (r *Runtime) dialer() (*pipe, error) {
	r.mu.Lock()
	p := r.pipe
	if p != nil {
		r.mu.Unlock()
		return p, nil
	}
	p = newPipe()
	r.pipe = p
	r.mu.Unlock()
	return p, r.start(func() { _ = r.Serve(p) })
}

// start runs f in a goroutine that Close waits for.
func (r *Runtime) start(f func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	r.running.Go(f)
	return nil
}

// tB is what [Start] needs of a test. A *testing.T has it, a *testing.B, and whatever
// embeds one: the package itself does not import testing, for the sake of programs
// that link a runtime in memory.
type tB interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
	Cleanup(func())
}

// Start makes a runtime and a connection to it for a test, and ends both with
// it. In a testing/synctest bubble, call it with the bubble's T.
//
// They end with the test's cleanups, so Run of an agent has to be ended by a Cleanup
// registered later, or before the test returns. Connections of [Runtime.Dial] are the
// caller's to close: one left open makes synctest panic with "blocked goroutines remain".
func Start(t tB, cfg Config) (*Runtime, *grpc.ClientConn) {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := r.Dial()
	if err != nil {
		t.Fatal(errors.Join(err, r.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r, conn
}
