package prometheus

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/probe"
)

// Agent returns the agent's pods. A *loop.Loop implements it.
type Agent interface {
	Pods() []loop.Pod
	Cache() *runtime.Cache
}

// Config configures Metrics.
type Config struct {
	// NodeName is the node's name, which distinguishes nodes in alerts. Required.
	NodeName string
}

// Metrics collects one agent's metrics. It may be used concurrently.
type Metrics struct {
	nodeName string

	podStart   client.Histogram
	podWorker  *client.HistogramVec
	relist     client.Histogram
	interval   client.Histogram
	lastSeen   client.Gauge
	operations *client.CounterVec
	errors     *client.CounterVec
	durations  *client.HistogramVec
	evictions  *client.CounterVec
	preempted  *client.CounterVec
	cgroups    *client.HistogramVec
	storage    *client.HistogramVec
	probes     *probes
	starts     starts
}

const (
	subsystem     = "kubelet"
	operationType = "operation_type"
)

// New returns Metrics whose counters are zero.
func New(c Config) (*Metrics, error) {
	if c.NodeName == "" {
		return nil, errors.New("prometheus: Config.NodeName is missing")
	}
	if !utf8.ValidString(c.NodeName) {
		return nil, fmt.Errorf("prometheus: Config.NodeName %q is not UTF-8", c.NodeName)
	}
	return &Metrics{
		nodeName:   c.NodeName,
		podStart:   histogram("pod_start_duration_seconds", "Time from when a pod was first seen until it ran.", podStartBuckets()),
		podWorker:  histograms("pod_worker_duration_seconds", "Time of one work on a pod, by what asked for it: create, update, sync, kill; or terminated.", client.DefBuckets),
		relist:     histogram("pleg_relist_duration_seconds", "Time of a list of all pods of the runtime.", client.DefBuckets),
		interval:   histogram("pleg_relist_interval_seconds", "Time between two lists of all pods.", client.DefBuckets),
		lastSeen:   client.NewGauge(client.GaugeOpts{Subsystem: subsystem, Name: "pleg_last_seen_seconds", Help: "When all pods were last listed, in seconds since the Unix epoch."}),
		operations: counters("runtime_operations_total", "Calls of the runtime."),
		errors:     counters("runtime_operations_errors_total", "Calls of the runtime that failed."),
		durations:  histograms("runtime_operations_duration_seconds", "Time of a call of the runtime.", client.ExponentialBuckets(0.005, 2.5, 14)),
		evictions:  client.NewCounterVec(client.CounterOpts{Subsystem: subsystem, Name: "evictions", Help: "Pods that were evicted, by the signal that asked for it."}, []string{"eviction_signal"}),
		preempted:  client.NewCounterVec(client.CounterOpts{Subsystem: subsystem, Name: "preemptions", Help: "Pods that were stopped for a critical pod, by the resource that was missing."}, []string{"preemption_signal"}),
		cgroups:    histograms("cgroup_manager_duration_seconds", "Time of work on the cgroup of a pod: create, update, destroy.", client.DefBuckets),
		storage: client.NewHistogramVec(client.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "Time of making a volume, or bringing it up to date before a start.", Buckets: storageBuckets(),
		}, []string{"migrated", "operation_name", "status", "volume_plugin"}),
		probes: newProbes(),
		starts: newStarts(),
	}, nil
}

func podStartBuckets() []float64 {
	return []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
}

func storageBuckets() []float64 {
	return []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
}

func histogramOpts(name, help string, buckets []float64) client.HistogramOpts {
	return client.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}
}

func histogram(name, help string, buckets []float64) client.Histogram {
	return client.NewHistogram(histogramOpts(name, help, buckets))
}

func histograms(name, help string, buckets []float64) *client.HistogramVec {
	return client.NewHistogramVec(histogramOpts(name, help, buckets), []string{operationType})
}

func counters(name, help string) *client.CounterVec {
	return client.NewCounterVec(client.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, []string{operationType})
}

// Observe adds the observers of the Metrics to a configuration, so that an agent with this configuration reports its work
// to them. It also wraps Sync.Sink and Sync.Cgroups: set both before.
func (m *Metrics) Observe(c *nodeagent.Config) {
	sink := &terminationSink{next: c.Sync.Sink, count: m.starts.terminations, counted: map[types.UID]map[string]bool{}}
	c.Sync.Sink = sink
	c.Observe(nodeagent.Observers{
		Sync: podObserver{metrics: m}, Workers: workObserver{metrics: m, forget: sink.forget}, Watch: &listObserver{metrics: m}, Probes: m.Probes(),
		Evicted: func(e eviction.Eviction) { m.CountEviction(string(e.Signal)) },
	})
	if c.Sync.Extensions.Cgroups != nil {
		c.Sync.Extensions.Cgroups = &cgroups{Cgroups: c.Sync.Extensions.Cgroups, durations: m.cgroups, made: map[types.UID]bool{}}
	}
}

// Probes returns the observer of probes that Observe adds, for programs that have their own prober.
func (m *Metrics) Probes() probe.Observer { return probeObserver{m.probes} }

// CountEviction counts an evicted pod by its signal, such as memory.available. Observe counts the
// agent's evictions; call CountEviction for others.
func (m *Metrics) CountEviction(signal string) {
	m.evictions.WithLabelValues(strings.ToValidUTF8(signal, "\uFFFD")).Inc()
}

// CountPreemption counts a pod that was stopped for a critical pod, by the resource that was missing.
func (m *Metrics) CountPreemption(missing v1.ResourceName) {
	m.preempted.WithLabelValues(strings.ToValidUTF8(string(missing), "\uFFFD")).Inc()
}

// Collector returns all metrics except probe metrics.
func (m *Metrics) Collector(agent Agent) client.Collector {
	return &collector{Metrics: m, agent: agent}
}

// ProbeCollector returns probe metrics. They have pod labels, and are removed with the pod.
func (m *Metrics) ProbeCollector() client.Collector { return m.probes }

// Handler serves metrics for the agent, Go and the process at /metrics, with more metrics of the
// caller such as [Volumes], and those of probes at /metrics/probes. Use it as server.Config.Metrics.
func (m *Metrics) Handler(agent Agent, more ...client.Collector) (http.Handler, error) {
	mux := http.NewServeMux()
	for path, all := range map[string][]client.Collector{
		"/metrics":        append([]client.Collector{m.Collector(agent), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}, more...),
		"/metrics/probes": {m.ProbeCollector()},
	} {
		registry := client.NewRegistry()
		for _, c := range all {
			if err := registry.Register(c); err != nil {
				return nil, err
			}
		}
		mux.Handle(path, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
	return mux, nil
}
