package cri

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Timeouts limit how long a Client's calls take, in addition to each call's context: a call ends
// with the earlier one. A zero field means its default, a negative one no limit.
type Timeouts struct {
	// Connect is how long Dial waits for the runtime's response. Default 10 s.
	Connect time.Duration
	// Call limits every call that has no own field. Default 2 min, as in a kubelet
	// (runtimeRequestTimeout).
	Call time.Duration
	// RunPodSandbox limits a sandbox's creation, including its network. Default twice Call.
	RunPodSandbox time.Duration
	// StopSlack is added to a StopContainer's grace period, and to the timeout for an
	// ExecSync. An ExecSync without a timeout has no limit. Default is Call.
	StopSlack time.Duration
	// PullImage limits a whole pull. Default none: a pull ends with its context.
	PullImage time.Duration
}

const (
	defaultConnect = 10 * time.Second
	defaultCall    = 2 * time.Minute
	unbounded      = time.Duration(-1)
)

func (t Timeouts) withDefaults() Timeouts {
	t.Connect = orDefault(t.Connect, defaultConnect)
	t.Call = orDefault(t.Call, defaultCall)
	t.RunPodSandbox = orDefault(t.RunPodSandbox, 2*t.Call)
	t.StopSlack = orDefault(t.StopSlack, t.Call)
	t.PullImage = orDefault(t.PullImage, unbounded)
	return t
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// of returns one call's limit, negative for none.
func (t Timeouts) of(req any) time.Duration {
	switch r := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		return t.RunPodSandbox
	case *runtimeapi.PullImageRequest:
		return t.PullImage
	case *runtimeapi.StopContainerRequest:
		return withSlack(r.GetTimeout(), t.StopSlack)
	case *runtimeapi.ExecSyncRequest:
		if r.GetTimeout() <= 0 {
			return unbounded
		}
		return withSlack(r.GetTimeout(), t.StopSlack)
	}
	return t.Call
}

// withSlack adds slack to some seconds. The number comes from a pod, so the sum may exceed a
// Duration.
func withSlack(seconds int64, slack time.Duration) time.Duration {
	const forever = int64(100 * 365 * 24 * time.Hour / time.Second)
	if slack < 0 || seconds > forever {
		return unbounded
	}
	return time.Duration(max(seconds, 0))*time.Second + slack
}

// Conn returns a connection whose unary calls are limited by t. Its Close closes conn, if that has a Close.
func (t Timeouts) Conn(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return timedConn{conn, t.Interceptor()}
}

// timedConn is a connection with timeouts.
type timedConn struct {
	grpc.ClientConnInterface
	limit grpc.UnaryClientInterceptor
}

// Invoke makes a unary call.
func (c timedConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	invoke := func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		return c.ClientConnInterface.Invoke(ctx, method, req, reply, opts...)
	}
	return c.limit(ctx, method, req, reply, nil, invoke, opts...)
}

// Close closes the connection below, if that has a Close.
func (c timedConn) Close() error {
	if conn, ok := c.ClientConnInterface.(io.Closer); ok {
		return conn.Close()
	}
	return nil
}

// Interceptor limits each unary call on a connection by t. Dial installs it, and Conn's connections have it.
func (t Timeouts) Interceptor() grpc.UnaryClientInterceptor {
	t = t.withDefaults()
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, cancel := t.limit(ctx, req)
		defer cancel()
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// limit returns a call's context. t has its defaults.
func (t Timeouts) limit(ctx context.Context, req any) (context.Context, context.CancelFunc) {
	if bound := t.of(req); bound >= 0 {
		return context.WithTimeout(ctx, bound)
	}
	return ctx, func() {}
}
