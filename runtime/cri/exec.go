package cri

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxExecAnswer is the largest ExecSync response, in bytes. A container controls how much its
	// probes and handlers print, and the agent uses only its end.
	maxExecAnswer = 1 << 20
	// parallelExecAnswers limits how many ExecSync responses are received at a time.
	parallelExecAnswers = 4
	// streamWindow is how many response bytes the runtime may send before the client receives it.
	// It is the minimum that gRPC lets a client set. A window that grows by itself grows to 16 MiB
	// for each call.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
)

// execAnswers limits the memory for all ExecSync responses on a connection. It does not limit how
// many calls run: commands that hang delay no other command.
type execAnswers chan struct{}

// intercept makes an ExecSync call as a stream, so that it can wait before it receives the response.
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
		return stream.RecvMsg(reply) // it returns the reason
	}
	if _, err := stream.Header(); err != nil { // the header arrives with the response
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
