package clients

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func allNodes(t *testing.T) map[string]func(*testing.T) *node {
	all := map[string]func(*testing.T) *node{"critest": inMemory}
	maps.Copy(all, onRuntimes(t))
	return all
}

// busy uses both CPU and memory.
var busy = []string{"sh", "-c", "while true; do sleep 0.05; done"}

func TestSummary(t *testing.T) {
	for name, node := range allNodes(t) {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			n.run(t, busy...)
			var got stats.Summary
			n.wait(t, func() bool { // a container that was just started has used nothing yet
				got = decode(t, n, "/stats/summary")
				return len(got.Pods) == 1 && len(got.Pods[0].Containers) == 1 && got.Pods[0].CPU != nil && got.Pods[0].Containers[0].CPU != nil
			})
			check(t, got, n.uid+"-web", n.image != "registry.test/app:1")
			if n := got.Node; n.Fs == nil || n.Network == nil || len(n.Network.Interfaces) == 0 || *n.Fs.CapacityBytes < *n.Fs.AvailableBytes {
				t.Errorf("node: %+v, want a network with interfaces, and a file system with a capacity of at least what is available", n)
			}
			check(t, decode(t, n, "/stats/summary?only_cpu_and_memory=true"), n.uid+"-web", false)
		})
	}
}

// decode rejects unknown fields.
func decode(t *testing.T, n *node, path string) stats.Summary {
	t.Helper()
	text := n.get(t, path)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var s stats.Summary
	if err := d.Decode(&s); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

func check(t *testing.T, s stats.Summary, uid types.UID, network bool) {
	t.Helper()
	n := s.Node
	if n.NodeName != "node1" || n.CPU == nil || *n.CPU.UsageCoreNanoSeconds == 0 || *n.Memory.WorkingSetBytes == 0 || n.StartTime.IsZero() {
		t.Errorf("node: %+v, want name %q, a start time, and CPU and memory in use", n, "node1")
	}
	if len(s.Pods) != 1 || len(s.Pods[0].Containers) != 1 {
		t.Fatalf("pods: %+v, want one with one container", s.Pods)
	}
	p := s.Pods[0]
	if p.PodRef != (stats.PodReference{Name: "web", Namespace: "default", UID: string(uid)}) || p.StartTime.IsZero() || p.CPU == nil || p.Memory == nil {
		t.Fatalf("pod: %+v", p)
	}
	if network && (p.Network == nil || p.Network.Name != "eth0" || p.Network.RxBytes == nil) {
		t.Errorf("network: %+v", p.Network)
	}
	c := p.Containers[0]
	if c.Name != "app" || c.CPU == nil || c.Memory == nil || *c.Memory.WorkingSetBytes == 0 || *c.Memory.WorkingSetBytes > 1<<30 || *c.CPU.UsageCoreNanoSeconds > uint64(time.Hour) {
		t.Fatalf("container: %+v, want name %q, at most %v bytes of memory and at most %v ns of CPU time", c, "app", 1<<30, uint64(time.Hour))
	}
	if *p.Memory.WorkingSetBytes < *c.Memory.WorkingSetBytes/2 || time.Since(p.CPU.Time.Time) > patience || time.Since(c.StartTime.Time) > patience {
		t.Errorf("pod %+v, container %+v", p, c)
	}
}

// Prometheus' parser finds the metrics that metrics-server reads, by their names.
func TestResourceMetrics(t *testing.T) {
	for name, node := range allNodes(t) {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			n.run(t, busy...)
			n.wait(t, func() bool {
				return bytes.Contains(n.get(t, "/metrics/resource"), []byte("container_cpu_usage_seconds_total{"))
			})
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families := must.Get(parser.TextToMetricFamilies(bytes.NewReader(n.get(t, "/metrics/resource"))))(t)
			for family, labels := range map[string][]string{
				"node_cpu_usage_seconds_total": nil, "node_memory_working_set_bytes": nil, "resource_scrape_error": nil,
				"pod_cpu_usage_seconds_total": {"pod", "web", "namespace", "default"}, "pod_memory_working_set_bytes": {"pod", "web", "namespace", "default"},
				"container_cpu_usage_seconds_total":  {"container", "app", "pod", "web", "namespace", "default"},
				"container_memory_working_set_bytes": {"container", "app", "pod", "web", "namespace", "default"},
				"container_start_time_seconds":       {"container", "app", "pod", "web", "namespace", "default"},
			} {
				metrics := families[family].GetMetric()
				if len(metrics) != 1 || len(metrics[0].Label)*2 != len(labels) {
					t.Errorf("%s: %v", family, metrics)
					continue
				}
				for i, l := range metrics[0].Label {
					if l.GetName() != labels[2*i] || l.GetValue() != labels[2*i+1] {
						t.Errorf("%s: %v, want Name %v and Value %v", family, l, labels[2*i], labels[2*i+1])
					}
				}
				if value := metrics[0].GetGauge().GetValue() + metrics[0].GetCounter().GetValue(); (family == "resource_scrape_error") != (value == 0) {
					t.Errorf("%s is %v, want 0 only for resource_scrape_error", family, value)
				}
			}
		})
	}
}
