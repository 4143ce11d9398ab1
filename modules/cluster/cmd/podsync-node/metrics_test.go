//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// /metrics has the requests to the API server, by code, and the validity of the certificates.
func TestMetricsOfRequestsAndCertificates(t *testing.T) {
	n := newTarget(t)
	code, text, err := n.ask("127.0.0.1", "good-ann", "/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("%d %.200q %v", code, text, err)
	}
	for _, line := range []string{
		`rest_client_requests_total\{code="20[01]",host="[^"]+",method="POST"\} [1-9]`,
		`rest_client_request_duration_seconds_count\{host="[^"]+",verb="GET"\} [1-9]`,
		`kubelet_certificate_manager_client_ttl_seconds \+Inf`,
		`kubelet_certificate_manager_server_ttl_seconds 3\.15\d+e\+07`,
		`kubelet_certificate_manager_client_expiration_renew_errors 0`,
		`kubelet_server_expiration_renew_errors 0`,
	} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(text) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

// The paths that OPERATING.md names are served.
func TestPathsOfMetrics(t *testing.T) {
	n := newTarget(t)
	for path, family := range map[string]string{"/metrics": "kubelet_running_pods", "/metrics/resource": "scrape_error", "/metrics/probes": "", "/metrics/cadvisor": "container_scrape_error"} {
		if code, text, err := n.ask("127.0.0.1", "good-ann", path); err != nil || code != http.StatusOK || !strings.Contains(text, family) {
			t.Errorf("%s: %d %v, want the metric %q in %.300q", path, code, err, family, text)
		}
	}
}

type noServer struct{}

func (noServer) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// A request without a response is counted, too.
func TestFailedRequestsAreCounted(t *testing.T) {
	m := newAPIMetrics()
	r, err := http.NewRequest(http.MethodGet, "https://server:6443/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := m.wrap(noServer{}).RoundTrip(r); err == nil {
		resp.Body.Close()
		t.Error("no error")
	}
	registry := client.NewRegistry()
	registry.MustRegister(m.requests)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	metric := families[0].GetMetric()[0]
	if label := metric.GetLabel()[0].GetValue(); metric.GetCounter().GetValue() != 1 || label != "<error>" {
		t.Errorf("%v requests with the code %q, want 1 with <error>", metric.GetCounter().GetValue(), label)
	}
}

// Calls of the pod resources API are counted by method and version, and failed calls as well.
func TestPodResourcesCallsAreCounted(t *testing.T) {
	m := newPodResourcesMetrics()
	m.count("/v1.PodResourcesLister/List", nil)
	m.count("/v1.PodResourcesLister/Get", errors.New("not found"))
	m.count("/v1alpha1.PodResourcesLister/List", nil)
	m.count("/v1.PodResourcesLister/Other", nil)
	registry := client.NewRegistry()
	registry.MustRegister(m.collectors()...)
	families := must.Get(registry.Gather())(t)
	var got []string
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			got = append(got, fmt.Sprint(f.GetName(), " ", metric.GetLabel()[0].GetValue(), " ", metric.GetCounter().GetValue()))
		}
	}
	want := []string{
		"kubelet_pod_resources_endpoint_errors_get v1 1",
		"kubelet_pod_resources_endpoint_requests_get v1 1",
		"kubelet_pod_resources_endpoint_requests_list v1 1",
		"kubelet_pod_resources_endpoint_requests_list v1alpha1 1",
		"kubelet_pod_resources_endpoint_requests_total v1 2",
		"kubelet_pod_resources_endpoint_requests_total v1alpha1 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
