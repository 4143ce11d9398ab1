package devices

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/foreign"
)

const (
	// maxConnections is the maximum number of open connections, and maxCalls of the concurrent calls of each. An answer
	// is held until its caller has read it, so together they bound the answers' memory.
	maxConnections, maxCalls = 32, 4
	// maxRequest and maxHeaders are the maximum sizes of a request and of its headers, in bytes.
	maxRequest, maxHeaders = 64 << 10, 16 << 10
	// callRate is how many calls of the pod resources API are served in a second, and callBurst how many at once, as by a
	// kubelet: each call reads all pods.
	callRate, callBurst = 100, 10
	// idleTime is how long a connection without a call stays open.
	idleTime = time.Minute
)

const (
	// maxAnswer is the maximum size of a plugin's answer in bytes, as in a kubelet. window is the maximum size of the data
	// in flight.
	maxAnswer, window = 4 << 20, 64 << 10
	// maxText is the maximum length of a plugin's error text in the agent's errors, in bytes.
	maxText = 1024
	// maxResources is the maximum number of resources, including those of disconnected plugins: the Node lists all of them.
	maxResources = 256
	// maxID is the maximum length of a device's ID in bytes: the status of a pod has the IDs of its devices, and an API server
	// rejects one that is too large.
	maxID = 1 << 10
	// maxDevices is the maximum number of devices of one plugin, maxNodes the maximum number of NUMA nodes of a device, and
	// maxItems the maximum number of items in a plugin's answer to Allocate for one container.
	maxDevices, maxNodes, maxItems = 1 << 16, 8, 4096
	// resourceShare and devicePool limit the devices of all resources, in bytes: each resource may use its share, and all
	// together the pool for more. They fit in resources.json with the names of the resources, for which 1 KiB each is left.
	resourceShare, devicePool = maxKnown/2/maxResources - 1<<10, maxKnown / 2
	// The burst and the interval of the registrations of all plugins, and of one plugin's reports.
	registrationBurst, reportBurst, pause = 2 * maxResources, 64, time.Second
)

// A shortened is an error from a plugin with a truncated text.
type shortened struct {
	text string
	error
}

func (s shortened) Error() string { return s.text }
func (s shortened) Unwrap() error { return s.error }

// shorten bounds and escapes a plugin's error text, because the plugin chooses the text.
func shorten(err error) error {
	text := foreign.Cut(err.Error(), maxText)
	if text == err.Error() {
		return err
	}
	return shortened{text, err}
}

// newServer returns a gRPC server with bounded memory for each caller.
func newServer(options ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(options, grpc.WaitForHandlers(true), grpc.MaxConcurrentStreams(maxCalls), grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaders), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime}))...)
}

// rateLimit rejects calls beyond callRate and callBurst, with a kubelet's error, and reports the other calls to called.
func rateLimit(called func(method string, err error)) grpc.ServerOption {
	calls := rate.NewLimiter(callRate, callBurst)
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler) (any, error) {
		if !calls.Allow() {
			return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
		}
		resp, err := serve(ctx, req)
		if called != nil {
			called(info.FullMethod, err)
		}
		return resp, err
	})
}

// boundedListener closes new connections while maxConnections are open. Its Close closes all of them: otherwise a gRPC
// server that stops would wait for clients that have connected and send nothing.
type boundedListener struct {
	net.Listener

	mu     sync.Mutex
	open   map[*boundedConn]bool
	closed bool
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if bounded := l.enter(conn); bounded != nil {
			return bounded, nil
		}
		_ = conn.Close() // the caller sees the close
	}
}

// enter counts a connection. It returns nil if the limit is reached.
func (l *boundedListener) enter(conn net.Conn) *boundedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.open) == maxConnections {
		return nil
	}
	if l.open == nil {
		l.open = map[*boundedConn]bool{}
	}
	c := &boundedConn{Conn: conn, of: l}
	l.open[c] = true
	return c
}

func (l *boundedListener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	l.closed = true
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the server may have closed it
	}
	return err
}

// boundedConn is a connection that a boundedListener counts until it is closed.
type boundedConn struct {
	net.Conn
	of *boundedListener
}

func (c *boundedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
