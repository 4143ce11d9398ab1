package main

import (
	"crypto/tls"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
)

// apiMetrics are request metrics to the API server and of the node's certificates. They have the names of a
// kubelet's metrics, which the alerts and dashboards of kubernetes-mixin use.
type apiMetrics struct {
	requests                   *client.CounterVec
	durations                  *client.HistogramVec
	clientErrors, serverErrors client.Counter
}

func newAPIMetrics() *apiMetrics {
	return &apiMetrics{
		requests: client.NewCounterVec(client.CounterOpts{Name: "rest_client_requests_total", Help: "Requests to the API server, by the code of the response."}, []string{"code", "method", "host"}),
		durations: client.NewHistogramVec(client.HistogramOpts{
			Name: "rest_client_request_duration_seconds", Help: "Time until the API server responded.", Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
		}, []string{"verb", "host"}),
		clientErrors: client.NewCounter(client.CounterOpts{Name: "kubelet_certificate_manager_client_expiration_renew_errors", Help: "Failed requests for a client certificate."}),
		serverErrors: client.NewCounter(client.CounterOpts{Name: "kubelet_server_expiration_renew_errors", Help: "Failed requests for a certificate of the server."}),
	}
}

// collectors returns all metrics. own and served return the certificate of the client and of the server, nil if there is none.
func (m *apiMetrics) collectors(own, served func() *tls.Certificate) []client.Collector {
	return []client.Collector{
		m.requests, m.durations, m.clientErrors, m.serverErrors,
		ttl("kubelet_certificate_manager_client_ttl_seconds", "Time until the client certificate expires; +Inf if it is not managed.", own),
		ttl("kubelet_certificate_manager_server_ttl_seconds", "Time until the certificate of the server expires; +Inf if there is none.", served),
	}
}

// ttl returns the time until a certificate expires as a metric.
func ttl(name, help string, certificate func() *tls.Certificate) client.Collector {
	return client.NewGaugeFunc(client.GaugeOpts{Name: name, Help: help}, func() float64 {
		if now := certificate(); now != nil && now.Leaf != nil {
			return math.Trunc(time.Until(now.Leaf.NotAfter).Seconds())
		}
		return math.Inf(1)
	})
}

// wrap returns a transport that counts the requests.
func (m *apiMetrics) wrap(next http.RoundTripper) http.RoundTripper {
	return &countedTransport{m, next}
}

type countedTransport struct {
	*apiMetrics
	next http.RoundTripper
}

// RoundTrip sends a request and counts it. A request without a response has the code "<error>", as in client-go.
func (t *countedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := t.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	t.requests.WithLabelValues(code, r.Method, r.URL.Host).Inc()
	t.durations.WithLabelValues(r.Method, r.URL.Host).Observe(time.Since(began).Seconds())
	return resp, err
}

// WrappedRoundTripper returns the transport that sends the requests, for client-go.
func (t *countedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// podResourcesMetrics count the calls of the pod resources API, with the names of a kubelet's metrics.
type podResourcesMetrics struct {
	total *client.CounterVec
	// calls and failed have a counter for each method.
	calls, failed map[string]*client.CounterVec
}

func newPodResourcesMetrics() *podResourcesMetrics {
	counter := func(name, help string) *client.CounterVec {
		return client.NewCounterVec(client.CounterOpts{Name: "kubelet_pod_resources_endpoint_" + name, Help: help}, []string{"server_api_version"})
	}
	m := &podResourcesMetrics{total: counter("requests_total", "Calls of the pod resources API."), calls: map[string]*client.CounterVec{}, failed: map[string]*client.CounterVec{}}
	for method, name := range map[string]string{"List": "list", "Get": "get", "GetAllocatableResources": "get_allocatable"} {
		m.calls[method] = counter("requests_"+name, "Calls of "+method+" of the pod resources API.")
		m.failed[method] = counter("errors_"+name, "Failed calls of "+method+" of the pod resources API.")
	}
	return m
}

func (m *podResourcesMetrics) collectors() []client.Collector {
	all := []client.Collector{m.total}
	for method := range m.calls {
		all = append(all, m.calls[method], m.failed[method])
	}
	return all
}

// count counts a call to a method such as /v1.PodResourcesLister/List.
func (m *podResourcesMetrics) count(method string, err error) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	version, _, _ := strings.Cut(service, ".")
	if m.calls[name] == nil {
		return
	}
	m.total.WithLabelValues(version).Inc()
	m.calls[name].WithLabelValues(version).Inc()
	if err != nil {
		m.failed[name].WithLabelValues(version).Inc()
	}
}
