package server_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/server"
)

// mixin are the metrics of cAdvisor that dashboards and rules of kubernetes-mixin name.
var mixin = strings.Fields(`container_cpu_cfs_periods_total container_cpu_cfs_throttled_periods_total container_cpu_usage_seconds_total
	container_fs_reads_bytes_total container_fs_reads_total container_fs_writes_bytes_total container_fs_writes_total container_memory_cache
	container_memory_rss container_memory_swap container_memory_working_set_bytes container_network_receive_bytes_total
	container_network_receive_packets_dropped_total container_network_receive_packets_total container_network_transmit_bytes_total
	container_network_transmit_packets_dropped_total container_network_transmit_packets_total`)

// /metrics/cadvisor has all metrics that kubernetes-mixin reads, with their labels, and no duplicate series.
func TestCadvisor(t *testing.T) {
	tree := maps.Clone(proc)
	n := newNode(t, func(c *server.Config) {
		c.Stats = must.Get(stats.New(stats.Config{Runtime: c.Client, Root: tree, Dir: t.TempDir()}))(t)
	})
	pod := n.run("web", "sleep infinity", isRunning)
	status, _ := n.agent.Cache().Get(pod.UID)
	for at, cpu := range map[string]string{"kubepods/poduid-of-web": "5", "kubepods/poduid-of-web/" + status.Containers[0].ID.ID: "4"} {
		dir := "sys/fs/cgroup/" + at + "/"
		tree[dir+"cpu.stat"] = file("usage_usec " + cpu + "000000\nuser_usec 1\nsystem_usec 1\nnr_periods 10\nnr_throttled 2\nthrottled_usec 5\n")
		tree[dir+"memory.stat"] = file("anon 40\nfile 7\nfile_mapped 5\ninactive_file 500\n")
		tree[dir+"memory.current"], tree[dir+"memory.max"], tree[dir+"memory.swap.current"] = file("2000\n"), file("max\n"), file("0\n")
		tree[dir+"io.stat"] = file("8:0 rbytes=4096 wbytes=8192 rios=1 wios=2\n")
		tree[dir+"cgroup.procs"] = file("77\n")
	}
	tree["sys/fs/cgroup/cgroup.controllers"] = file("cpu memory\n")
	tree["proc/77/net/dev"] = file("Inter-|\n face |\n  eth0: 600 6 0 1 0 0 0 0 300 3 0 2 0 0 0 0\n")
	code, text := n.ask("GET", "/metrics/cadvisor")
	if code != 200 {
		t.Fatal(code, text)
	}
	series, families := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		m := regexp.MustCompile(`^([a-z_]+)(\{[^}]*\})? ([0-9.e+-]+)( [0-9]{13})?\n$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%q is no sample", line)
		}
		if _, twice := series[m[1]+m[2]]; twice {
			t.Errorf("%s is there twice", m[1]+m[2])
		}
		series[m[1]+m[2]], families[m[1]] = m[3], true
	}
	for _, name := range mixin {
		if !families[name] {
			t.Errorf("there is no %s", name)
		}
	}
	id := status.Containers[0].ID.ID
	labels := `container="app",id="/kubepods/poduid-of-web/` + id + `",image="` + status.Containers[0].Image + `",name="` + id + `",namespace="default",pod="web"}`
	for name, want := range map[string]string{
		`container_cpu_usage_seconds_total{cpu="total",` + labels: "4",
		`container_memory_working_set_bytes{` + labels:            "1500",
		`container_memory_cache{` + labels:                        "7",
		`container_spec_memory_limit_bytes{` + labels:             "0",
		`container_fs_writes_bytes_total{device="8:0",` + labels:  "8192",
		`container_cpu_cfs_throttled_periods_total{` + labels:     "2",
		"container_scrape_error":                                  "0",
		`container_network_receive_packets_dropped_total{interface="eth0",container="",id="/kubepods/poduid-of-web",image="",name="",namespace="default",pod="web"}`: "1",
	} {
		if series[name] != want {
			t.Errorf("%s is %q, want %s", name, series[name], want)
		}
	}
}
