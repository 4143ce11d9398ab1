package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

// Config configures the connection to a container runtime.
type Config struct {
	// Endpoint is the runtime's address: "unix:///run/containerd/containerd.sock", a bare absolute
	// path, or "npipe:////./pipe/containerd-containerd" on Windows. Required, unless Dialer is set.
	Endpoint string
	// Timeouts limit the calls' duration.
	Timeouts Timeouts
	// MaxMessageBytes is the maximum message size. Default 16 MiB, as in a kubelet; gRPC's own 4 MiB
	// are too few for a list with many containers. CRI lists all containers in one message, at
	// 0.9 kB for each podsync container, more with many labels, so the default suffices for about
	// 19,000 containers. Beyond that, lists fail with ErrExhausted, and an agent that starts keeps
	// waiting. The runtime has its own limit, 16 MiB in containerd. An ExecSync's response is
	// limited to 1 MiB, because a container controls its contents.
	MaxMessageBytes int
	// Dialer opens the connection, and Endpoint is not dialed. Default none.
	Dialer func(context.Context) (net.Conn, error)
	// Options are additional connection options, such as an interceptor for tracing.
	Options []grpc.DialOption
}

const (
	defaultMaxMessage = 16 << 20
	// firstReconnect is the first pause between two attempts to reconnect. maxReconnect is the
	// longest pause, and so the longest delay until the client notices that the runtime is available
	// again.
	firstReconnect, maxReconnect = 50 * time.Millisecond, time.Second
	// handshake is the minimum time for an attempt to connect. It does not depend on the pause
	// between attempts, because a busy runtime is slow to accept.
	handshake = 5 * time.Second
)

// Client is a connection to a container runtime: the generated clients for both CRI services on one
// gRPC connection, with timeouts on every call and automatic reconnection.
//
// Its methods return the generated clients' errors, with texts that package foreign has bounded; use
// Classify to distinguish them. All methods may be called concurrently.
type Client struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient

	lacks   bool // a service
	conn    grpc.ClientConnInterface
	pods    any // may have DialPod: conn, or the implementation
	version *runtimeapi.VersionResponse
}

// Dial connects to a runtime and requests its version. It waits for the runtime until ctx ends or
// Timeouts.Connect has passed.
//
// If the runtime does not serve CRI v1, the error has class ErrUnimplemented; if it cannot be
// reached, class ErrUnavailable or ErrDeadline. The caller must close the client.
func Dial(ctx context.Context, c Config) (*Client, error) {
	dialer, name, err := c.dialer()
	if err != nil {
		return nil, err
	}
	if i := slices.Index(c.Options, nil); i >= 0 {
		return nil, fmt.Errorf("cri: Config.Options[%d] is nil", i)
	}
	timeouts := c.Timeouts.withDefaults()
	options := append(c.options(dialer, timeouts), c.Options...)
	options = append(options, grpc.WithChainUnaryInterceptor(make(execAnswers, parallelExecAnswers).intercept)) // the last interceptor, because it makes the call
	conn, err := grpc.NewClient("passthrough:///cri", options...)
	if err != nil {
		return nil, fmt.Errorf("cri: %s: %w", name, err)
	}
	client := newClient(conn)
	if client.version, err = readVersion(ctx, client, timeouts.Connect); err != nil {
		return nil, errors.Join(fmt.Errorf("cri: connect to %s: %w", name, err), conn.Close())
	}
	return client, nil
}

// NewClient returns a Client that uses the caller's connection, with that connection's message sizes. Its calls have the
// default Timeouts; for others, pass a connection of [Timeouts.Conn]. It makes no call, so it does not know the runtime's
// name: pass the name on, for example as syncpod.Config.RuntimeName. conn is required: each call of a Client without one is an
// error, and Validate reports it.
func NewClient(conn grpc.ClientConnInterface) *Client {
	if conn == nil {
		return New(nil, nil)
	}
	if _, timed := conn.(timedConn); !timed {
		conn = Timeouts{}.Conn(conn)
	}
	return newClient(conn)
}

// newClient returns a Client with the connection's timeouts.
func newClient(conn grpc.ClientConnInterface) *Client {
	bounded := boundedConn{conn}
	return &Client{
		RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(bounded),
		ImageServiceClient:   runtimeapi.NewImageServiceClient(bounded),
		conn:                 conn,
		pods:                 conn,
	}
}

// Validate returns an error for a Client that lacks either service.
func (c *Client) Validate() error {
	if c.lacks || c.RuntimeServiceClient == nil || c.ImageServiceClient == nil {
		return errors.New("not connected: make it with cri.Dial, cri.NewClient or cri.New")
	}
	return nil
}

// PodDialer returns the function that connects to the runtime's pod ports, if the connection, or the RuntimeServiceClient
// passed to New, brings one as a method DialPod: critest's connections do, because no network leads to pods in memory. It is
// nil otherwise.
func (c *Client) PodDialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return podDialer(c.pods)
}

// podDialer returns a connection's or an implementation's DialPod, or that of the Client it is, nil if it has none.
func podDialer(of any) func(ctx context.Context, network, address string) (net.Conn, error) {
	switch d := of.(type) {
	case timedConn:
		return podDialer(d.ClientConnInterface)
	case interface {
		DialPod(ctx context.Context, network, address string) (net.Conn, error)
	}:
		return d.DialPod
	case interface {
		PodDialer() func(ctx context.Context, network, address string) (net.Conn, error)
	}:
		return d.PodDialer()
	}
	return nil
}

// Close ends the connection and all calls on it, unless the connection has no Close.
func (c *Client) Close() error {
	if conn, ok := c.conn.(io.Closer); ok {
		return conn.Close()
	}
	return nil
}

// RuntimeName returns the runtime's name, such as "containerd" or "cri-o". It is the type in the
// runtime's container IDs. It is empty if the client was not created by Dial.
func (c *Client) RuntimeName() string { return c.version.GetRuntimeName() }

// RuntimeVersion returns the version that the runtime reported to Dial.
func (c *Client) RuntimeVersion() string { return c.version.GetRuntimeVersion() }

// dialer returns the function that opens the connection, and the other end's name for errors.
func (c Config) dialer() (dial func(context.Context, string) (net.Conn, error), name string, err error) {
	if c.Dialer != nil {
		return func(ctx context.Context, _ string) (net.Conn, error) { return c.Dialer(ctx) }, "runtime", nil
	}
	ep, err := parseEndpoint(c.Endpoint)
	if err != nil {
		return nil, "", err
	}
	if ep.network == "npipe" {
		return func(ctx context.Context, _ string) (net.Conn, error) { return dialPipe(ctx, ep.address) }, c.Endpoint, nil
	}
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, ep.network, ep.address)
	}, c.Endpoint, nil
}

func (c Config) options(dial func(context.Context, string) (net.Conn, error), timeouts Timeouts) []grpc.DialOption {
	size := c.MaxMessageBytes
	if size <= 0 {
		size = defaultMaxMessage
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(size), grpc.MaxCallSendMsgSize(size)),
		grpc.WithChainUnaryInterceptor(timeouts.Interceptor()),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstReconnect, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnect},
			MinConnectTimeout: handshake,
		}),
	}
}

// readVersion waits for the runtime's first Version response, and checks it.
func readVersion(ctx context.Context, c identifier, bound time.Duration) (*runtimeapi.VersionResponse, error) {
	if bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bound)
		defer cancel()
	}
	v, err := c.Version(ctx, &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
	if err = Classify(err); errors.Is(err, ErrUnimplemented) {
		return nil, fmt.Errorf("does not serve CRI v1 (runtime.v1.RuntimeService); containerd does from 1.6 on: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if api := v.GetRuntimeApiVersion(); !isV1(api) {
		return nil, &Error{Class: ErrUnimplemented, Err: fmt.Errorf("%s %s speaks CRI %q, want v1", foreign.Word(v.GetRuntimeName()), foreign.Word(v.GetRuntimeVersion()), foreign.Word(api))}
	}
	if name := v.GetRuntimeName(); name != foreign.Word(name) {
		return nil, &Error{Class: ErrInvalid, Err: fmt.Errorf("the runtime's name is %s, and must be a word of at most %d bytes", foreign.Word(name), foreign.MaxWord)}
	}
	if v.GetRuntimeName() == "" {
		return nil, &Error{Class: ErrInvalid, Err: errors.New("the runtime reports no name, which every container ID needs")}
	}
	return v, nil
}

// isV1 accepts "v1", "1.0.0" and "v1.2", but not "v1alpha2". It accepts an empty version, because
// the service that responded is named runtime.v1.
func isV1(api string) bool {
	api = strings.TrimPrefix(api, "v")
	return api == "" || api == "1" || strings.HasPrefix(api, "1.")
}
