package probe

import (
	"context"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

const (
	healthCheck = "/grpc.health.v1.Health/Check"
	serving     = 1

	// These limit the memory that a server can make a probe use. A response has a few bytes, and a
	// header list with a kilobyte is a large one. The windows are the smallest that grpc accepts;
	// because they are set, they do not grow.
	maxAnswer     = 4 << 10
	maxHeaderList = 16 << 10
	window        = 64 << 10
)

// grpc calls a container's health service (KEP-2727).
func (c *Checker) grpc(ctx context.Context, r Request) outcome {
	if r.PodIP == "" {
		return failed("%v", handler.ErrNoAddress)
	}
	address := net.JoinHostPort(r.PodIP, strconv.Itoa(int(r.Probe.GRPC.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent(c.userAgent),
		grpc.WithMaxHeaderListSize(maxHeaderList),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return c.dial(ctx, "tcp", address) }))
	if err != nil {
		return failed("%v", err)
	}
	defer conn.Close()
	request, answer := &healthRequest{}, &healthAnswer{}
	if r.Probe.GRPC.Service != nil {
		request.Version = *r.Probe.GRPC.Service
	}
	if err := conn.Invoke(ctx, healthCheck, request, answer); err != nil {
		return failed("the health service answered %v", status.Code(err))
	}
	if state := int32(answer.GetValue()); state != serving {
		return failed("the health service answered with status %d", state)
	}
	return outcome{}
}

// The messages in grpc.health.v1 have one field each, with the number 1: a service's name, and an enum.
// The CRI messages used here have the same wire format, and every agent links them already. The
// generated package for grpc.health.v1 would be one more package in every agent.
type (
	healthRequest = runtimeapi.VersionRequest
	healthAnswer  = runtimeapi.Int64Value
)
