package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracing "k8s.io/component-base/tracing/api/v1"

	"github.com/podsync/podsync/modules/otel"
)

const (
	// collector is the trace collector's default endpoint.
	collector = "localhost:4317"
	// lastSpans is the timeout for sending the last spans when the agent stops.
	lastSpans = 2 * time.Second
)

// trace creates the tracing of the agent, nil if the configuration has none, and a function that stops it.
func (a *agent) trace(ctx context.Context) (t *otel.Tracing, end func(), err error) {
	if a.kubelet.Tracing == nil {
		return nil, func() {}, nil
	}
	provider, err := tracerProvider(ctx, a.kubelet.Tracing, a.name)
	if err != nil {
		return nil, nil, fmt.Errorf("tracing: %w", err)
	}
	end = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			a.log.Error(err, "The last spans are lost")
		}
	}
	t, err = otel.New(otel.Config{TracerProvider: provider})
	return t, end, err
}

// tracerProvider sends spans to a collector over gRPC without TLS, as a kubelet does (KEP-2831). The configuration sets
// how many of a million are sampled; the default is none.
func tracerProvider(ctx context.Context, c *tracing.TracingConfiguration, node string) (*sdktrace.TracerProvider, error) {
	endpoint, rate := collector, int32(0)
	if c.Endpoint != nil {
		endpoint = cmp.Or(*c.Endpoint, collector)
	}
	if c.SamplingRatePerMillion != nil {
		rate = *c.SamplingRatePerMillion
	}
	if rate < 0 || rate > 1_000_000 {
		return nil, fmt.Errorf("samplingRatePerMillion is %d, want 0 to 1000000", rate)
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(endpoint), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(rate)/1_000_000))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "kubelet"), attribute.String("host.name", node))),
	), nil
}
