package prometheus_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A runtime that repeats the value of a Secret in its errors does not get it into the metrics.
func TestMetricsHaveNoCanary(t *testing.T) {
	const canary = "c4n4ry"
	for _, method := range []critest.Method{critest.PullImage, critest.CreateContainer, critest.StartContainer, critest.ExecSync, critest.StopContainer, critest.RemovePodSandbox} {
		t.Run(string(method), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAgent(t)
				fault, err := a.rt.Inject(faults.Fault{Match: faults.Match{Method: method}, Times: faults.Always, Err: status.Error(codes.Unknown, "runc: exec app-"+canary)})
				must.Do(t, err)
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{{
					Name: "app", Image: "img", Command: []string{"sleep", "infinity"},
					LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}}, PeriodSeconds: 10, FailureThreshold: 1000},
				}}}}
				must.Do(t, a.pods.Set(pod))
				time.Sleep(2 * time.Minute)
				must.Do(t, a.pods.Set())
				time.Sleep(2 * time.Minute)
				if fault.Hits() == 0 {
					t.Error("the runtime did not fail")
				}
				handler := must.Get(a.metrics.Handler(a))(t)
				for _, path := range []string{"/metrics", "/metrics/probes", "/metrics/resource"} {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
					if text := w.Body.String(); strings.Contains(text, canary) || path == "/metrics" && !strings.Contains(text, "kubelet_runtime_operations") {
						t.Errorf("%s: %.2000s", path, text)
					}
				}
			})
		})
	}
}
