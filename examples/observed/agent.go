package main

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/syncpod/agent"
)

// An Agent is an agent with metrics, which it serves at /metrics.
type Agent struct {
	*agent.Agent
	counts *metrics
}

// New returns an agent with this configuration, with logs and metrics.
func New(log *slog.Logger, c agent.Config) (*Agent, error) {
	a := &Agent{counts: newMetrics()}
	c.Log = logr.FromSlogHandler(log.Handler()) // the log of all parts
	c.Observe(agent.Observers{
		Workers: workers{metrics: a.counts}, Watch: watcher{metrics: a.counts}, Sync: containers{metrics: a.counts}, Images: pulls{metrics: a.counts},
	})
	var err error
	a.Agent, err = agent.New(c)
	return a, err
}

// ServeHTTP answers a GET of /metrics.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprint(w, a.Metrics())
}

// Metrics returns the counters, and the current state of the agent and its pods.
func (a *Agent) Metrics() string {
	now := newMetrics()
	for _, p := range a.Pods() {
		now.add("podsync_pods", 1, "phase", string(p.Status.Phase))
		for _, c := range p.Status.ContainerStatuses {
			now.add("podsync_container_restarts", float64(c.RestartCount), "pod", p.Pod.Namespace+"/"+p.Pod.Name, "container", c.Name)
		}
	}
	healthy := 0.0
	if a.Health().OK() {
		healthy = 1
	}
	now.add("podsync_healthy", healthy)
	return a.counts.String() + now.String()
}
