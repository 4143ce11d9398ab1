package prober

import (
	"context"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/internal/hook"
)

const (
	healthCheck = "/grpc.health.v1.Health/Check"
	serving     = 1

	// These bound the memory that a server can make a probe use. An answer has a few bytes, and a
	// header list of a kilobyte is a large one. The windows are the smallest ones that grpc
	// accepts; setting them keeps them from growing.
	maxAnswer     = 4 << 10
	maxHeaderList = 16 << 10
	window        = 64 << 10
)

// grpc asks the health service of a container (KEP-2727).
func (p *Prober) grpc(ctx context.Context, t target) outcome {
	if t.ip == "" {
		return failed("%v", hook.ErrNoAddress)
	}
	address := net.JoinHostPort(t.ip, strconv.Itoa(int(t.probe.GRPC.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent(userAgent),
		grpc.WithMaxHeaderListSize(maxHeaderList),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return p.config.Dial(ctx, "tcp", address) }))
	if err != nil {
		return failed("%v", err)
	}
	defer conn.Close()
	request, answer := &healthRequest{}, &healthAnswer{}
	if t.probe.GRPC.Service != nil {
		request.Version = *t.probe.GRPC.Service
	}
	if err := conn.Invoke(ctx, healthCheck, request, answer); err != nil {
		return failed("the health service answered %v", status.Code(err))
	}
	if state := int32(answer.GetValue()); state != serving {
		return failed("the health service answered with status %d", state)
	}
	return outcome{}
}

// The messages of grpc.health.v1 have one field each, with the number 1: the name of a service, and
// an enum. CRI has messages of the same wire form, which every agent links. The generated package
// of grpc.health.v1 would be one package more in each of them.
type (
	healthRequest = runtimeapi.VersionRequest
	healthAnswer  = runtimeapi.Int64Value
)
