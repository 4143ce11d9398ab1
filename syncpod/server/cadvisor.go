package server

import (
	"net/http"
	"time"

	"github.com/podsync/podsync/runtime/stats"
)

// serveCadvisor returns the usage of the cgroups of pods and containers, under the names and labels of cAdvisor, which the
// dashboards and rules of kubernetes-mixin read.
func (s *Server) serveCadvisor(a *answer, r *http.Request) error {
	details, err := s.details.get(r.Context(), s.known)
	if gone := r.Context().Err(); gone != nil {
		return gone
	}
	a.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	return s.encode(r, func() error {
		_, err := a.Write(cadvisor(details, err != nil))
		return err
	})
}

// A measure is a metric with one sample for each cgroup.
type measure struct {
	name, kind, help string
	value            func(d *stats.Detail) (value *uint64, unit float64)
}

const nanos, whole = 1e9, 1

// measures returns the measures sorted by name.
func measures() []measure {
	return []measure{
		{"container_cpu_cfs_periods_total", "counter", "Enforcement periods in which the group ran", func(d *stats.Detail) (*uint64, float64) { return d.Periods, whole }},
		{"container_cpu_cfs_throttled_periods_total", "counter", "Enforcement periods in which the group was throttled", func(d *stats.Detail) (*uint64, float64) { return d.ThrottledPeriods, whole }},
		{"container_cpu_cfs_throttled_seconds_total", "counter", "Time for which the group was throttled, in seconds", func(d *stats.Detail) (*uint64, float64) { return d.ThrottledNanoSeconds, nanos }},
		{"container_cpu_system_seconds_total", "counter", "CPU time spent in the kernel, in seconds", func(d *stats.Detail) (*uint64, float64) { return d.SystemNanoSeconds, nanos }},
		{"container_cpu_user_seconds_total", "counter", "CPU time spent in user mode, in seconds", func(d *stats.Detail) (*uint64, float64) { return d.UserNanoSeconds, nanos }},
		{"container_memory_cache", "gauge", "Memory of cached files in bytes", func(d *stats.Detail) (*uint64, float64) { return d.CacheBytes, whole }},
		{"container_memory_mapped_file", "gauge", "Memory of mapped files in bytes", func(d *stats.Detail) (*uint64, float64) { return d.MappedBytes, whole }},
		{"container_memory_rss", "gauge", "Memory that no file stands behind in bytes", func(d *stats.Detail) (*uint64, float64) { return d.RSSBytes, whole }},
		{"container_memory_swap", "gauge", "Swap in bytes", func(d *stats.Detail) (*uint64, float64) { return d.SwapBytes, whole }},
		{"container_memory_usage_bytes", "gauge", "Memory with all caches in bytes", func(d *stats.Detail) (*uint64, float64) { return d.UsageBytes, whole }},
		{"container_memory_working_set_bytes", "gauge", "Working set in bytes", func(d *stats.Detail) (*uint64, float64) { return d.WorkingSetBytes, whole }},
		{"container_oom_events_total", "counter", "Processes that the kernel has killed for lack of memory", func(d *stats.Detail) (*uint64, float64) { return d.OOMKills, whole }},
		{"container_processes", "gauge", "Processes and threads", func(d *stats.Detail) (*uint64, float64) { return d.Processes, whole }},
		{"container_spec_memory_limit_bytes", "gauge", "Limit of memory in bytes, 0 for none", func(d *stats.Detail) (*uint64, float64) {
			if d.LimitBytes == nil {
				return new(uint64(0)), whole
			}
			return d.LimitBytes, whole
		}},
	}
}

// cadvisor returns each family that has a sample.
func cadvisor(details []stats.Detail, failed bool) []byte {
	var families []*family
	for _, m := range measures() {
		f := &family{name: m.name, kind: m.kind, help: m.help}
		for i := range details {
			if value, unit := m.value(&details[i]); value != nil {
				f.add(labelsOf(&details[i], ""), float64(*value)/unit, details[i].Time)
			}
		}
		families = append(families, f)
	}
	cpu := &family{name: "container_cpu_usage_seconds_total", kind: "counter", help: "CPU time in seconds"}
	start := &family{name: "container_start_time_seconds", kind: "gauge", help: "When the container was started, in seconds since the Unix epoch"}
	scrapeError := &family{name: "container_scrape_error", kind: "gauge", help: "1 if some of this could not be read, 0 otherwise"}
	for i := range details {
		d := &details[i]
		if d.UsageNanoSeconds != nil {
			cpu.add(labelsOf(d, `cpu="total",`), float64(*d.UsageNanoSeconds)/nanos, d.Time)
		}
		start.add(labelsOf(d, ""), float64(d.StartTime.UnixNano())/nanos, time.Time{})
	}
	scrapeError.add("", map[bool]float64{true: 1}[failed], time.Time{})
	families = append(families, cpu, start, scrapeError)
	families = append(families, devices(details)...)
	return join(append(families, interfaces(details)...)...)
}

// devices returns disk families.
func devices(details []stats.Detail) []*family {
	list := []*family{
		{name: "container_fs_reads_bytes_total", kind: "counter", help: "Bytes read from a disk"}, {name: "container_fs_reads_total", kind: "counter", help: "Reads from a disk"},
		{name: "container_fs_writes_bytes_total", kind: "counter", help: "Bytes written to a disk"}, {name: "container_fs_writes_total", kind: "counter", help: "Writes to a disk"},
	}
	for i := range details {
		for _, v := range details[i].Devices {
			labels := labelsOf(&details[i], `device="`+escape(v.Name)+`",`)
			for j, value := range []uint64{v.ReadBytes, v.Reads, v.WrittenBytes, v.Writes} {
				list[j].add(labels, float64(value), details[i].Time)
			}
		}
	}
	return list
}

// interfaces returns the families of networks.
func interfaces(details []stats.Detail) []*family {
	var list []*family
	for _, way := range []string{"receive", "transmit"} {
		for _, what := range []string{"bytes", "errors", "packets", "packets_dropped"} {
			list = append(list, &family{name: "container_network_" + way + "_" + what + "_total", kind: "counter", help: "What went over an interface: " + way + ", " + what})
		}
	}
	for i := range details {
		for _, n := range details[i].Network {
			labels := labelsOf(&details[i], `interface="`+escape(n.Name)+`",`)
			for j, value := range []*uint64{n.RxBytes, n.RxErrors, n.RxPackets, n.RxDropped, n.TxBytes, n.TxErrors, n.TxPackets, n.TxDropped} {
				if value != nil {
					list[j].add(labels, float64(*value), details[i].Time)
				}
			}
		}
	}
	return list
}

// labelsOf returns the labels of cAdvisor, after those in more. The path of the cgroup distinguishes two pods with one
// name.
func labelsOf(d *stats.Detail, more string) string {
	return `{` + more + `container="` + escape(d.Container) + `",id="` + escape(d.Path) + `",image="` + escape(d.Image) + `",name="` + escape(d.ID) +
		`",namespace="` + escape(d.Namespace) + `",pod="` + escape(d.Pod) + `"}`
}
