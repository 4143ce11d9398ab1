package prometheus

import (
	"sync"

	client "github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/probe"
)

// probes count probe checks.
type probes struct {
	total    *client.CounterVec
	duration *client.HistogramVec

	mu sync.Mutex
	// pods are the pods that have series.
	pods map[types.UID]types.NamespacedName
}

func newProbes() *probes {
	ofPod := []string{"probe_type", "container", "pod", "namespace"}
	return &probes{
		total: client.NewCounterVec(client.CounterOpts{
			Subsystem: "prober", Name: "probe_total", Help: "Checks of the probes of containers, by how they ended: successful, failed or unknown.",
		}, append(ofPod, "result", "pod_uid")),
		duration: client.NewHistogramVec(client.HistogramOpts{
			Subsystem: "prober", Name: "probe_duration_seconds", Help: "Time of a check that succeeded.", Buckets: client.DefBuckets,
		}, ofPod),
		pods: map[types.UID]types.NamespacedName{},
	}
}

// Describe and Collect implement client.Collector.
func (p *probes) Describe(descs chan<- *client.Desc) {
	p.total.Describe(descs)
	p.duration.Describe(descs)
}

func (p *probes) Collect(metrics chan<- client.Metric) {
	p.total.Collect(metrics)
	p.duration.Collect(metrics)
}

type probeObserver struct{ probes *probes }

// Checked counts a check.
func (o probeObserver) Checked(c probe.Check) {
	o.probes.count(c)
}

// PodForgotten removes a pod's series.
func (o probeObserver) PodForgotten(uid types.UID) {
	o.probes.forget(uid)
}

func (p *probes) count(c probe.Check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[c.Pod.UID] = types.NamespacedName{Namespace: c.Pod.Namespace, Name: c.Pod.Name}
	ofPod := []string{string(c.Kind), c.Container, c.Pod.Name, c.Pod.Namespace}
	p.total.WithLabelValues(append(ofPod, result(c.Outcome), string(c.Pod.UID))...).Inc()
	if c.Outcome == actions.ProbeSuccess {
		p.duration.WithLabelValues(ofPod...).Observe(c.Took.Seconds())
	}
}

// result converts a probe's result to the name that a kubelet's metrics use.
func result(r actions.ProbeResult) string {
	switch r {
	case actions.ProbeSuccess:
		return "successful"
	case actions.ProbeFailure:
		return "failed"
	}
	return "unknown"
}

// forget removes a pod's series. It keeps the durations if another pod with the same name has
// series.
func (p *probes) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, known := p.pods[uid]
	if !known {
		return
	}
	delete(p.pods, uid)
	p.total.DeletePartialMatch(client.Labels{"pod_uid": string(uid)})
	for _, other := range p.pods {
		if other == name {
			return
		}
	}
	p.duration.DeletePartialMatch(client.Labels{"pod": name.Name, "namespace": name.Namespace})
}
