package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/stats"
)

// serveMetrics calls the embedder's handler. The agent itself serves only resource metrics.
func (s *Server) serveMetrics(a *answer, r *http.Request) error {
	if s.config.Metrics == nil {
		return notFound("there are no metrics at %q", r.URL.Path)
	}
	s.config.Metrics.ServeHTTP(a, r)
	return nil
}

// serveTimeline serves the embedder's history of pods.
func (s *Server) serveTimeline(a *answer, r *http.Request) error {
	if s.config.Timeline == nil {
		return notFound("no timeline is recorded")
	}
	s.config.Timeline.ServeHTTP(a, r)
	return nil
}

// servePlan serves what the embedder would do with other manifests.
func (s *Server) servePlan(a *answer, r *http.Request) error {
	if s.config.Plan == nil {
		return notFound("this agent plans nothing")
	}
	s.config.Plan.ServeHTTP(a, r)
	return nil
}

// serveDrain calls the embedder's handler, which stops the pods.
func (s *Server) serveDrain(w http.ResponseWriter, r *http.Request) error {
	if s.config.Drain == nil {
		return notFound("this agent is not drained over its API")
	}
	s.config.Drain.ServeHTTP(w, r)
	return nil
}

// serveResourceMetrics serves CPU and memory usage for metrics-server, in the text format of Prometheus, version 0.0.4.
func (s *Server) serveResourceMetrics(a *answer, r *http.Request) error {
	all, err := s.cpuAndMemory.get(r.Context(), s.known)
	if gone := r.Context().Err(); gone != nil {
		return gone
	}
	a.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	return s.encode(r, func() error {
		_, err := a.Write(exposition(&all, err != nil))
		return err
	})
}

// A family has all samples of one metric.
type family struct {
	name, kind, help string
	samples          []byte
}

// exposition returns each family that has a sample, sorted by name.
func exposition(all *stats.Stats, failed bool) []byte {
	containerCPU := &family{name: "container_cpu_usage_seconds_total", kind: "counter", help: "CPU time that the container has spent, in core-seconds"}
	containerMemory := &family{name: "container_memory_working_set_bytes", kind: "gauge", help: "Working set of the container in bytes"}
	containerStart := &family{name: "container_start_time_seconds", kind: "gauge", help: "When the container was started, in seconds since the Unix epoch"}
	nodeCPU := &family{name: "node_cpu_usage_seconds_total", kind: "counter", help: "CPU time that the node has spent, in core-seconds"}
	nodeMemory := &family{name: "node_memory_working_set_bytes", kind: "gauge", help: "Working set of the node in bytes"}
	podCPU := &family{name: "pod_cpu_usage_seconds_total", kind: "counter", help: "CPU time that the pod has spent, in core-seconds"}
	podMemory := &family{name: "pod_memory_working_set_bytes", kind: "gauge", help: "Working set of the pod in bytes"}
	scrapeError := &family{name: "resource_scrape_error", kind: "gauge", help: "1 if some of this could not be read, 0 otherwise"}

	nodeCPU.cpu("", all.Node.CPU)
	nodeMemory.memory("", all.Node.Memory)
	for _, p := range newestOfNames(all.Pods) {
		ofPod := `pod="` + escape(p.Name) + `",namespace="` + escape(p.Namespace) + `"}`
		podCPU.cpu("{"+ofPod, p.CPU)
		podMemory.memory("{"+ofPod, p.Memory)
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := `{container="` + escape(c.Name) + `",` + ofPod
			containerCPU.cpu(labels, c.CPU)
			containerMemory.memory(labels, c.Memory)
			if !c.StartTime.IsZero() {
				containerStart.add(labels, float64(c.StartTime.UnixNano())/1e9, time.Time{})
			}
		}
	}
	if failed {
		scrapeError.add("", 1, time.Time{})
	} else {
		scrapeError.add("", 0, time.Time{})
	}
	return join(containerCPU, containerMemory, containerStart, nodeCPU, nodeMemory, podCPU, podMemory, scrapeError)
}

// newestOfNames returns the pods. If several pods have one name, it returns only the newest of them: while one ends and
// the next one runs, two samples with the same labels would be invalid.
func newestOfNames(pods []stats.Pod) []*stats.Pod {
	var list []*stats.Pod
	at := make(map[types.NamespacedName]int, len(pods))
	for i := range pods {
		p := &pods[i]
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		before, ok := at[name]
		switch {
		case !ok:
			at[name] = len(list)
			list = append(list, p)
		case p.StartTime.After(list[before].StartTime):
			list[before] = p
		}
	}
	return list
}

func join(families ...*family) []byte {
	var text []byte
	for _, f := range families {
		if len(f.samples) > 0 {
			text = append(text, "# HELP "+f.name+" "+f.help+"\n# TYPE "+f.name+" "+f.kind+"\n"...)
			text = append(text, f.samples...)
		}
	}
	return text
}

func (f *family) cpu(labels string, c *stats.CPU) {
	if c != nil && c.UsageCoreNanoSeconds != nil {
		f.add(labels, float64(*c.UsageCoreNanoSeconds)/1e9, c.Time)
	}
}

func (f *family) memory(labels string, m *stats.Memory) {
	if m != nil && m.WorkingSetBytes != nil {
		f.add(labels, float64(*m.WorkingSetBytes), m.Time)
	}
}

// add adds a sample. The sample has a timestamp unless its time is now.
func (f *family) add(labels string, value float64, at time.Time) {
	f.samples = append(f.samples, f.name+labels+" "...)
	f.samples = strconv.AppendFloat(f.samples, value, 'g', -1, 64)
	if !at.IsZero() {
		f.samples = strconv.AppendInt(append(f.samples, ' '), at.UnixMilli(), 10)
	}
	f.samples = append(f.samples, '\n')
}

// escape escapes the value of a label as the format requires.
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD"))
}
