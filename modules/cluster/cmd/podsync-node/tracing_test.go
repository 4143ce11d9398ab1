package main

import (
	"context"
	"net"
	"strings"
	"testing"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	tracing "k8s.io/component-base/tracing/api/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// spans is a collector that records spans.
type spans struct {
	collectortrace.UnimplementedTraceServiceServer
	names chan string
}

func (s spans) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	for _, of := range r.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.names <- of.GetResource().GetAttributes()[1].GetValue().GetStringValue() + " " + span.GetName()
			}
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func TestSpansAreSent(t *testing.T) {
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	collector, server := spans{names: make(chan string, 10)}, grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, collector)
	go server.Serve(lis)
	defer server.Stop()
	for rate, want := range map[int32]int{0: 0, 1_000_000: 1} {
		c := &tracing.TracingConfiguration{Endpoint: new(lis.Addr().String()), SamplingRatePerMillion: &rate}
		provider := must.Get(tracerProvider(t.Context(), c, "n1"))(t)
		_, span := provider.Tracer("test").Start(t.Context(), "syncPod")
		span.End()
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if len(collector.names) != want {
			t.Fatalf("%d spans of a rate of %d, want %d", len(collector.names), rate, want)
		}
		for range want {
			if got := <-collector.names; got != "kubelet syncPod" {
				t.Errorf("%q, want %q", got, "kubelet syncPod")
			}
		}
	}
}

func TestTracingIsOffByDefault(t *testing.T) {
	a := &agent{kubelet: &kubelet.KubeletConfiguration{}}
	if tracing, _, err := a.trace(t.Context()); tracing != nil || err != nil {
		t.Errorf("%v, %v, want none", tracing, err)
	}
	a.kubelet.Tracing = &tracing.TracingConfiguration{SamplingRatePerMillion: new(int32(-1))}
	if _, _, err := a.trace(t.Context()); err == nil || !strings.Contains(err.Error(), "samplingRatePerMillion is -1") {
		t.Errorf("%v, want an error of samplingRatePerMillion", err)
	}
}
