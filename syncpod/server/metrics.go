package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/podsync/podsync/runtime/stats"
)

// serveMetrics leaves all metrics but those of resources to the embedder.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	if s.config.Metrics == nil {
		return notFound("there are no metrics at %q", r.URL.Path)
	}
	s.config.Metrics.ServeHTTP(w, r)
	return nil
}

// serveTimeline leaves what happened to pods to who remembers it.
func (s *Server) serveTimeline(w http.ResponseWriter, r *http.Request) error {
	if s.config.Timeline == nil {
		return notFound("nobody remembers what happened to pods")
	}
	s.config.Timeline.ServeHTTP(w, r)
	return nil
}

// serveResourceMetrics answers with CPU and memory as metrics-server reads them, in the
// text format of Prometheus, version 0.0.4.
func (s *Server) serveResourceMetrics(w http.ResponseWriter, r *http.Request) error {
	all, err := s.figures(r.Context(), &s.cpuAndMemory)
	if r.Context().Err() != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(exposition(&all, err != nil)) // whoever has gone does not need it
	return nil
}

// A family is all samples of one metric.
type family struct {
	name, kind, help string
	samples          []byte
}

// exposition has each family that has a sample, in the order of their names.
func exposition(all *stats.Stats, failed bool) []byte {
	families := []*family{
		{name: "container_cpu_usage_seconds_total", kind: "counter", help: "CPU time that the container has spent, in core-seconds"},
		{name: "container_memory_working_set_bytes", kind: "gauge", help: "Working set of the container in bytes"},
		{name: "container_start_time_seconds", kind: "gauge", help: "When the container was started, in seconds since the Unix epoch"},
		{name: "node_cpu_usage_seconds_total", kind: "counter", help: "CPU time that the node has spent, in core-seconds"},
		{name: "node_memory_working_set_bytes", kind: "gauge", help: "Working set of the node in bytes"},
		{name: "pod_cpu_usage_seconds_total", kind: "counter", help: "CPU time that the pod has spent, in core-seconds"},
		{name: "pod_memory_working_set_bytes", kind: "gauge", help: "Working set of the pod in bytes"},
		{name: "resource_scrape_error", kind: "gauge", help: "1 if some of this could not be read, 0 otherwise"},
	}
	families[3].cpu("", all.Node.CPU)
	families[4].memory("", all.Node.Memory)
	for i := range all.Pods {
		p := &all.Pods[i]
		ofPod := `pod="` + escape(p.Name) + `",namespace="` + escape(p.Namespace) + `"}`
		families[5].cpu("{"+ofPod, p.CPU)
		families[6].memory("{"+ofPod, p.Memory)
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := `{container="` + escape(c.Name) + `",` + ofPod
			families[0].cpu(labels, c.CPU)
			families[1].memory(labels, c.Memory)
			if !c.StartTime.IsZero() {
				families[2].add(labels, float64(c.StartTime.UnixNano())/1e9, time.Time{})
			}
		}
	}
	families[7].add("", map[bool]float64{true: 1}[failed], time.Time{})
	return join(families)
}

func join(families []*family) []byte {
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

// add adds a sample, with the time that it is of unless that is now.
func (f *family) add(labels string, value float64, at time.Time) {
	f.samples = append(f.samples, f.name+labels+" "...)
	f.samples = strconv.AppendFloat(f.samples, value, 'g', -1, 64)
	if !at.IsZero() {
		f.samples = strconv.AppendInt(append(f.samples, ' '), at.UnixMilli(), 10)
	}
	f.samples = append(f.samples, '\n')
}

// escape is what the format asks of the value of a label.
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD"))
}
