package cri

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxExecAnswer is the maximum size of an ExecSync response, in bytes. A container controls how
	// much its probes and handlers print, and only the end of it is used.
	maxExecAnswer = 1 << 20
	// parallelExecAnswers is how many ExecSync responses are received at a time.
	parallelExecAnswers = 4
	// streamWindow is how much of an answer the runtime may send before it is received: the least
	// that gRPC lets a client say. A window that grows by itself grows to 16 MiB for each call.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
)

// execAnswers bounds the memory that the answers of all ExecSync calls of a connection take. The
// calls themselves are not bounded in number: commands that hang hold up no other.
type execAnswers chan struct{}

// intercept makes an ExecSync as a stream, which lets it wait before it receives the answer.
func (slots execAnswers) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method != runtimeapi.RuntimeService_ExecSync_FullMethodName {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{}, method, append(opts[:len(opts):len(opts)], grpc.MaxCallRecvMsgSize(maxExecAnswer))...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(req); err != nil {
		return stream.RecvMsg(reply) // which has the reason
	}
	if _, err := stream.Header(); err != nil { // comes with the answer
		return err
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	return stream.RecvMsg(reply)
}
