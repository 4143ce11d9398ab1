package otel

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
)

// Config configures a Tracing.
type Config struct {
	// TracerProvider creates the tracer. Required.
	TracerProvider trace.TracerProvider
	// Propagator passes the trace context to the runtime. Default: W3C's traceparent and
	// tracestate.
	Propagator propagation.TextMapPropagator
}

// Tracing creates one agent's spans. It may be used concurrently.
type Tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

// name is the tracer's name.
const name = "github.com/podsync/podsync"

// New returns a Tracing. The error names the field of the Config that is missing.
func New(c Config) (*Tracing, error) {
	if c.TracerProvider == nil {
		return nil, errors.New("otel: Config.TracerProvider is missing")
	}
	if c.Propagator == nil {
		c.Propagator = propagation.TraceContext{}
	}
	return &Tracing{tracer: c.TracerProvider.Tracer(name), propagator: c.Propagator}, nil
}

// Trace makes an agent with this configuration trace its work. It sets Workers.Trace, and returns an error if the
// configuration has one already.
func (t *Tracing) Trace(c *agent.Config) error {
	if c.Workers.Trace != nil {
		return errors.New("otel: Config.Workers.Trace is set already")
	}
	c.Workers.Trace = t.work
	return nil
}

// work starts the span of one item of work.
func (t *Tracing) work(ctx context.Context, w podworkers.Work) (context.Context, func(error)) {
	ctx, span := t.tracer.Start(ctx, spanOf(w.Type), trace.WithAttributes(attributes(w)...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, reasons(err))
		}
		span.End()
	}
}

// spanOf returns the name of the kubelet's span for the same work.
func spanOf(kind podworkers.WorkType) string {
	name := kind.String()
	return strings.ToLower(name[:1]) + name[1:]
}

func attributes(w podworkers.Work) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("k8s.pod.uid", string(w.UID)), attribute.String("k8s.pod.update_type", w.UpdateType.String())}
	named := func(namespace, name string) []attribute.KeyValue {
		return append(all, attribute.String("k8s.pod", namespace+"/"+name), attribute.String("k8s.pod.name", name), attribute.String("k8s.namespace.name", namespace))
	}
	switch {
	case w.Pod != nil:
		return named(w.Pod.Namespace, w.Pod.Name)
	case w.RuntimePod != nil:
		return named(w.RuntimePod.Namespace, w.RuntimePod.Name)
	}
	return all
}

// reasons returns the reasons for the failed steps that an error joins.
func reasons(err error) string {
	var all []string
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) {
		case *syncpod.StepError:
			all = append(all, string(e.Reason))
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				walk(err)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	return strings.Join(slices.Compact(all), ", ")
}
