package otel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/otel"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

const secret = "hush-hush"

// parents records each call's trace context to the runtime.
type parents struct {
	mu   sync.Mutex
	told []string
}

func (p *parents) note(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	p.mu.Lock()
	p.told = append(p.told, md.Get("traceparent")...)
	p.mu.Unlock()
	return invoke(ctx, method, req, reply, conn, options...)
}

// traced runs an agent with a pod whose first start fails, and which then runs and ends. It returns the spans.
func traced(t *testing.T, told *parents) tracetest.SpanStubs {
	dir := t.TempDir()
	rt, _ := critest.Start(t, critest.Config{Dir: dir, Latency: map[critest.Method]time.Duration{critest.PullImage: time.Second}})
	_, err := rt.Inject(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Times: 1, Err: status.Error(grpccodes.Unknown, secret)})
	must.Do(t, err)
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	tracing := must.Get(otel.New(otel.Config{TracerProvider: provider}))(t)
	conn := must.Get(rt.Dial(append(tracing.DialOptions(), grpc.WithChainUnaryInterceptor(told.note))...))(t)
	pods := source.NewPush()
	config := agent.Config{
		Client: cri.NewClient(conn), Sources: []source.Source{pods}, Root: filepath.Join(dir, "root"),
		Sync:       syncpod.Config{Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")}, RuntimeName: "critest"},
		NoEviction: true, // pods in memory do not fill the disk of the test machine
	}
	must.Do(t, tracing.Trace(&config))
	agent := must.Get(agent.New(config))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	err = pods.Set(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Image: "registry.test/app:1", Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait # " + secret},
		}}},
	})
	must.Do(t, err)
	time.Sleep(time.Minute)
	must.Do(t, pods.Set())
	time.Sleep(time.Minute)
	cancel()
	must.Do(t, errors.Join(<-ended, conn.Close()))
	return exporter.GetSpans()
}

func attributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &parents{}
		spans := traced(t, told)
		byID := map[string]tracetest.SpanStub{}
		for _, s := range spans {
			byID[s.SpanContext.SpanID().String()] = s
		}
		within := map[string]bool{} // "call in work"
		for _, s := range spans {
			if parent, ok := byID[s.Parent.SpanID().String()]; ok {
				within[s.Name+" in "+parent.Name] = true
				if s.StartTime.Before(parent.StartTime) || s.SpanContext.TraceID() != parent.SpanContext.TraceID() {
					t.Errorf("%s is not within %s", s.Name, parent.Name)
				}
			}
			if strings.Contains(fmt.Sprintf("%+v", s), secret) {
				t.Errorf("%+v, want no %v in it", s, secret)
			}
		}
		const service = "runtime.v1.RuntimeService/"
		for _, want := range []string{
			service + "RunPodSandbox in syncPod", "runtime.v1.ImageService/PullImage in syncPod", service + "CreateContainer in syncPod",
			service + "StartContainer in syncPod", service + "StopContainer in syncTerminatingPod",
		} {
			if !within[want] {
				t.Errorf("no span of %s among %q", want, slices.Sorted(maps.Keys(within)))
			}
		}
		counts := map[string]int{}
		for _, s := range spans {
			counts[s.Name+" "+s.Status.Code.String()+" "+s.Status.Description]++
			if strings.HasPrefix(s.Name, "sync") {
				want := map[string]string{"k8s.pod": "shop/web", "k8s.pod.name": "web", "k8s.pod.uid": "u-1", "k8s.namespace.name": "shop"}
				got := attributes(s)
				if got["k8s.pod.update_type"] == "" {
					t.Errorf("%s: %v, want k8s.pod.update_type", s.Name, got)
				}
				delete(got, "k8s.pod.update_type")
				if !maps.Equal(got, want) {
					t.Errorf("%s: %v, want %v", s.Name, got, want)
				}
			}
			if s.Name == service+"CreateContainer" {
				want := map[string]string{"rpc.system": "grpc", "rpc.service": "runtime.v1.RuntimeService", "rpc.method": "CreateContainer", "rpc.grpc.status_code": "0"}
				if s.Status.Code == codes.Error {
					want["rpc.grpc.status_code"] = "2"
				}
				if got := attributes(s); !maps.Equal(got, want) {
					t.Errorf("%s: %v, want %v", s.Name, got, want)
				}
			}
		}
		for _, want := range []string{"syncPod Error CreateContainerError", service + "CreateContainer Error Unknown", "syncTerminatingPod Unset ", "syncTerminatedPod Unset "} {
			if counts[want] != 1 {
				t.Errorf("%d times %q: %v", counts[want], want, counts)
			}
		}
		calls := 0
		for _, s := range spans {
			if strings.HasPrefix(s.Name, "runtime.v1.") {
				calls++
				if parent := "00-" + s.SpanContext.TraceID().String() + "-" + s.SpanContext.SpanID().String() + "-01"; !slices.Contains(told.told, parent) {
					t.Errorf("the runtime did not receive the trace context of %s", parent)
				}
			}
		}
		if calls != len(told.told) {
			t.Errorf("%d calls, %d with a trace context", calls, len(told.told))
		}
	})
}

func TestMissingAndTakenFields(t *testing.T) {
	if _, err := otel.New(otel.Config{}); err == nil || !strings.Contains(err.Error(), "Config.TracerProvider is missing") {
		t.Errorf("%v, want an error and %q in it", err, "Config.TracerProvider is missing")
	}
	tracing := must.Get(otel.New(otel.Config{TracerProvider: sdk.NewTracerProvider()}))(t)
	c := agent.Config{}
	c.Workers.Trace = func(ctx context.Context, _ podworkers.Work) (context.Context, func(error)) {
		return ctx, func(error) {}
	}
	if err := tracing.Trace(&c); err == nil || !strings.Contains(err.Error(), "Workers.Trace is set") {
		t.Errorf("%v, want an error and %q in it", err, "Workers.Trace is set")
	}
}
