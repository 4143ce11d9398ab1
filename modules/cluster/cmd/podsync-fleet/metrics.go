package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	v1 "k8s.io/api/core/v1"
)

// latencies are the buckets of latencies, in seconds.
var latencies = []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300}

func newLatency(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencies})
}

var (
	podsDesc     = prometheus.NewDesc("podsync_fleet_pods", "Pods on nodes of the fleet, by phase.", []string{"phase"}, nil)
	requestsDesc = prometheus.NewDesc("podsync_fleet_apiserver_requests_total", "Requests of the fleet to the API server. The code of a request without a response is <error>.", []string{"verb", "resource", "code"}, nil)
)

// registry returns a fleet's metrics.
func (r *report) registry() *prometheus.Registry {
	all := prometheus.NewRegistry()
	all.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), r.toReady, r.toGone, r)
	return all
}

// Describe implements prometheus.Collector.
func (r *report) Describe(to chan<- *prometheus.Desc) {
	to <- podsDesc
	to <- requestsDesc
}

// Collect implements prometheus.Collector.
func (r *report) Collect(to chan<- prometheus.Metric) {
	phases := r.phases()
	for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed} {
		to <- prometheus.MustNewConstMetric(podsDesc, prometheus.GaugeValue, float64(phases[phase]), string(phase))
	}
	for k, n := range r.counts() {
		to <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), k.Verb, k.Resource, code(k))
	}
}
