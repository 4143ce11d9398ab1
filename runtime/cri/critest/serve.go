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

// Serve serves CRI on a listener until Close, and closes the listener. Any listener works: of a unix
// socket, of bufconn, of a TCP port.
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

// grpcServer returns the server, and creates it at the first call.
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

// Listen serves a unix socket until Close and returns its endpoint in the form of an agent's configuration:
// unix:///path. The system limits the socket's path to about a hundred bytes. It also serves Exec's streams, Attach and
// PortForward, at a port of 127.0.0.1; [Runtime.ServeStreams] serves them elsewhere.
func (r *Runtime) Listen(path string) (endpoint string, err error) {
	lis, err := net.Listen("unix", path)
	if err != nil {
		return "", fmt.Errorf("critest: %w", err)
	}
	if err := r.start(func() { _ = r.Serve(lis) }); err != nil {
		return "", errors.Join(err, lis.Close())
	}
	if r.streams.Address() == "" {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("critest: streams: %w", err)
		}
		if err := r.ServeStreams(lis); err != nil {
			return "", errors.Join(err, lis.Close())
		}
	}
	return "unix://" + path, nil
}

// A Conn is a connection to a runtime in this process. An agent whose client uses it also reaches the runtime's
// pod ports: its DialPod is [Runtime.DialPod].
type Conn struct {
	*grpc.ClientConn
	runtime *Runtime
}

// DialPod connects to a pod port: see [Runtime.DialPod].
func (c *Conn) DialPod(ctx context.Context, network, address string) (net.Conn, error) {
	return c.runtime.DialPod(ctx, network, address)
}

// Dial connects to the runtime in this process, without a socket. It may be called several times. The
// caller must close each connection.
func (r *Runtime) Dial(opts ...grpc.DialOption) (*Conn, error) {
	p, err := r.dialer()
	if err != nil {
		return nil, err
	}
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dial(ctx) }),
	}, opts...)
	conn, err := grpc.NewClient("passthrough:///critest", opts...)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, r}, nil
}

// dialer returns Dial's pipe, and starts to serve it at the first call.
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
	done, err := r.register()
	if err != nil {
		return err
	}
	go func() {
		defer done()
		f()
	}()
	return nil
}

// register makes Close wait until done is called.
func (r *Runtime) register() (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	r.running.Add(1)
	return r.running.Done, nil
}

// TB has the methods of a test that [Start] needs; *testing.T, *testing.B and types that embed them
// implement it. The package itself does not import testing, so that programs with an in-memory runtime
// do not link it.
type TB interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
	Cleanup(func())
}

// Start creates a runtime and a connection to it for a test. Both end with the test. In a
// testing/synctest bubble, call it with the bubble's T.
//
// They end in the test's cleanups. So Run of an agent must end before the test returns, or in a Cleanup
// that is registered after Start. The caller must close connections of [Runtime.Dial]: an open one makes
// synctest panic with "blocked goroutines remain".
func Start(t TB, cfg Config) (*Runtime, *Conn) {
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
		logProblems(t, r)
		if err := errors.Join(conn.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r, conn
}
