package probe

import (
	"context"
	"errors"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/podsync/podsync/syncpod/hook"
)

const (
	healthCheck = "/grpc.health.v1.Health/Check"
	serving     = 1

	// What a server may make a probe hold in memory. An answer has a few bytes, and a header
	// list of a kilobyte is a large one. The windows are the smallest ones that grpc accepts;
	// that they are set keeps them from growing.
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
	var service string
	if t.probe.GRPC.Service != nil {
		service = *t.probe.GRPC.Service
	}
	var answer healthAnswer
	if err := conn.Invoke(ctx, healthCheck, healthRequest(service), &answer, grpc.ForceCodec(healthCodec{})); err != nil {
		return failed("the health service answered %v", status.Code(err))
	}
	if answer != serving {
		return failed("the health service answered with status %d", answer)
	}
	return outcome{}
}

// healthRequest is grpc.health.v1.HealthCheckRequest: the name of a service.
type healthRequest string

// healthAnswer is grpc.health.v1.HealthCheckResponse: a status.
type healthAnswer int32

// healthCodec encodes these two messages of one field each, which spares embedders
// the generated package.
type healthCodec struct{}

func (healthCodec) Name() string { return "proto" }

func (healthCodec) Marshal(v any) ([]byte, error) {
	service, _ := v.(healthRequest)
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), string(service)), nil
}

func (healthCodec) Unmarshal(data []byte, v any) error {
	answer, ok := v.(*healthAnswer)
	if !ok {
		return errors.New("no health answer is asked for")
	}
	*answer = 0
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if !num.IsValid() {
			return errors.New("the number of a field is too large")
		}
		data = data[n:]
		if num == 1 && typ == protowire.VarintType {
			value, n := protowire.ConsumeVarint(data)
			if n < 0 {
				return protowire.ParseError(n)
			}
			*answer, data = healthAnswer(value), data[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, data); n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
	}
	return nil
}
