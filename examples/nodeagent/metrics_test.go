package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/eviction"
)

// The agent serves each metric, with each label, that the alerts and the dashboard of docs/monitoring use.
func TestMetricsOfAlertsAndDashboard(t *testing.T) {
	m := newMetrics()
	c := agent.Config{Sync: syncpod.Config{Sink: syncpod.StatusSinkFunc(func(context.Context, *v1.Pod, v1.PodStatus) error { return nil })}}
	m.observe(&c)
	m.cache = new(runtime.Cache)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	c.Sync.Observer.PodRunning(pod, 3*time.Second)
	c.Sync.Observer.ContainerStarted(pod, actions.ContainerRef{Name: "app"}, time.Second, &syncpod.StepError{Reason: "RunContainerError", Err: errors.New("no")})
	c.Workers.Observer.SyncEnded(podworkers.Work{UID: "1", Type: podworkers.SyncPod}, 30*time.Millisecond, nil)
	c.Watch.Observer.Listed(1, time.Millisecond, nil)
	c.Evicted(eviction.Eviction{Signal: "memory.available"})
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "x://1", ExitCode: 3, Reason: "a\"\n"}}}}}
	for range 2 { // a status repeats what has ended
		if err := c.Sync.Sink.SetPodStatus(t.Context(), pod, status); err != nil {
			t.Fatal(err)
		}
	}
	_ = m.call(t.Context(), "/runtime.v1.RuntimeService/ListPodSandbox", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		return errors.New("no")
	})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`kubelet_runtime_operations_errors_total{operation_type="list_podsandbox"} 1`,
		`kubelet_pod_start_duration_seconds_bucket{le="2"} 0`, `kubelet_pod_start_duration_seconds_bucket{le="3"} 1`, `kubelet_pod_start_duration_seconds_count 1`,
		`kubelet_pod_worker_duration_seconds_bucket{operation_type="sync",le="+Inf"} 1`,
		`kubelet_started_containers_errors_total{container_type="container",code="RunContainerError"} 1`,
		`kubelet_terminated_containers_total{container_type="container",exit_code="3",reason="a\"\\n"} 1`,
		`kubelet_evictions{eviction_signal="memory.available"} 1`, `kubelet_running_pods 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		rules, err := os.ReadFile("../../docs/monitoring/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`(?:kubelet|storage)_\w+`).FindAllString(string(rules), -1) {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(text) {
				t.Errorf("%s uses %s, which is not served", file, name)
			}
		}
	}
}

// A runtime that reports ever new reasons does not make the metrics grow.
func TestSeriesAreBounded(t *testing.T) {
	m := newMetrics()
	for i := range 10_000 {
		m.add("kubelet_runtime_operations_total", 1, "operation_type", strings.Repeat("x", i))
	}
	if n := len(m.families["kubelet_runtime_operations_total"].series); n > maxSeries {
		t.Errorf("%d series", n)
	}
}
