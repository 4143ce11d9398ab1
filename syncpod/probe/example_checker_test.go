package probe_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podsync/podsync/actions"
	podprobe "github.com/podsync/podsync/syncpod/probe"
)

// One check, without a runtime and without a Manager.
func ExampleChecker() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer app.Close()
	checker, err := podprobe.NewChecker(podprobe.CheckerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	port := intstr.Parse(app.URL[len("http://127.0.0.1:"):])
	result, err := checker.Probe(context.Background(), podprobe.Request{
		PodIP: "127.0.0.1",
		Probe: &v1.Probe{TimeoutSeconds: 30, ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: port}}},
	})
	fmt.Println(result.Outcome == actions.ProbeFailure, result.Message, err)
	// Output: true the answer was HTTP 503 <nil>
}
