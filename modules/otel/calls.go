package otel

import (
	"context"
	"path"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// DialOptions returns options for cri.Config.Options, which trace the calls to the runtime.
func (t *Tracing) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(t.call)}
}

func (t *Tracing) call(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	method = strings.TrimPrefix(method, "/")
	ctx, span := t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", path.Dir(method)), attribute.String("rpc.method", path.Base(method)),
	))
	defer span.End()
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy() // copies nil metadata, too
	t.propagator.Inject(ctx, carrier(md))
	err := invoke(metadata.NewOutgoingContext(ctx, md), "/"+method, req, reply, conn, options...)
	code := status.Code(err)
	span.SetAttributes(attribute.Int64("rpc.grpc.status_code", int64(code)))
	if code != grpccodes.OK {
		span.SetStatus(codes.Error, code.String())
	}
	return err
}

// A carrier passes a trace context in gRPC metadata.
type carrier metadata.MD

// Get returns the first value of a key.
func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set sets a key's value.
func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

// Keys returns all keys.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
