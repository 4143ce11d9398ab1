package prometheus

import (
	"errors"
	"net/http"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
)

// Agent is what is asked how many pods there are. A *loop.Loop is one.
type Agent interface {
	Pods() []loop.Pod
	Cache() *runtime.Cache
}

// Config is what Metrics are made of.
type Config struct {
	// NodeName is the name of the node, by which alerts tell nodes apart. Required.
	NodeName string
}

// Metrics count what one agent does. They may be used concurrently.
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
}

const (
	subsystem     = "kubelet"
	operationType = "operation_type"
)

// New returns Metrics that nothing was counted in yet.
func New(c Config) (*Metrics, error) {
	if c.NodeName == "" {
		return nil, errors.New("prometheus: Config.NodeName is missing")
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
	}, nil
}

func podStartBuckets() []float64 {
	return []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
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

// Observe has a Loop that is made of this configuration tell the Metrics how its work
// goes. It sets the Observers of Sync, Workers and Watch, and refuses a configuration
// that has one of them: an observer that tells two others is the embedder's to write.
func (m *Metrics) Observe(c *loop.Config) error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Sync.Observer", c.Sync.Observer != nil},
		{"Workers.Observer", c.Workers.Observer != nil},
		{"Watch.Observer", c.Watch.Observer != nil},
	} {
		if f.set {
			return errors.New("prometheus: Config." + f.name + " is set already")
		}
	}
	c.Sync.Observer, c.Workers.Observer, c.Watch.Observer = m.Sync(), m.Workers(), m.Watch()
	return nil
}

// Sync, Workers and Watch are the observers that Observe sets.
func (m *Metrics) Sync() syncpod.Observer { return podObserver{metrics: m} }

// Workers is told of the work on pods.
func (m *Metrics) Workers() podworkers.Observer { return workObserver{metrics: m} }

// Watch is told how the runtime is watched.
func (m *Metrics) Watch() pleg.Observer { return &listObserver{metrics: m} }

// Collector has all that was counted, and what the agent has when it is asked.
func (m *Metrics) Collector(agent Agent) client.Collector {
	return &collector{Metrics: m, agent: agent}
}

// Handler serves the metrics of the agent, of Go and of the process at /metrics, and
// none yet at /metrics/probes. It is what server.Config.Metrics takes.
func (m *Metrics) Handler(agent Agent) (http.Handler, error) {
	registry := client.NewRegistry()
	all := []client.Collector{m.Collector(agent), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}
