package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/eviction"
)

// maxSeries bounds the label values of a metric: a runtime chooses the reasons of exits.
const maxSeries = 300

// metrics are the metrics of the agent in the text format of Prometheus, under a kubelet's names. docs/monitoring uses them.
// The module modules/prometheus has more, with a library.
type metrics struct {
	cache *runtime.Cache // of the agent; set before the metrics are served

	mu       sync.Mutex
	families map[string]*family
	// ended are the terminated containers in the last status of each pod.
	ended map[types.UID]map[string]bool
}

// A family has the series of one metric, by their labels.
type family struct {
	kind, help string
	buckets    []float64 // upper bounds, of a histogram
	series     map[string]*series
}

type series struct {
	value  float64 // or the sum of a histogram
	counts []uint64
	count  uint64
}

func newMetrics() *metrics {
	seconds := []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	starts := []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	m := &metrics{families: map[string]*family{}, ended: map[types.UID]map[string]bool{}}
	for name, f := range map[string]family{
		"kubelet_evictions":                       {kind: "counter", help: "Pods that were evicted, by the signal."},
		"kubelet_pleg_last_seen_seconds":          {kind: "gauge", help: "When all pods were last listed, in seconds since the Unix epoch."},
		"kubelet_pod_start_duration_seconds":      {kind: "histogram", help: "Time from when a pod was first seen until it ran.", buckets: starts},
		"kubelet_pod_worker_duration_seconds":     {kind: "histogram", help: "Time of one work on a pod.", buckets: seconds},
		"kubelet_running_containers":              {kind: "gauge", help: "Containers by their state."},
		"kubelet_running_pods":                    {kind: "gauge", help: "Pods that have a sandbox that is ready."},
		"kubelet_runtime_operations_total":        {kind: "counter", help: "Calls of the runtime."},
		"kubelet_runtime_operations_errors_total": {kind: "counter", help: "Calls of the runtime that failed."},
		"kubelet_started_containers_total":        {kind: "counter", help: "Containers that were started, also in vain."},
		"kubelet_started_containers_errors_total": {kind: "counter", help: "Containers that could not be started, by the reason."},
		"kubelet_terminated_containers_total":     {kind: "counter", help: "Containers that have terminated."},
	} {
		f.series = map[string]*series{}
		m.families[name] = &f
	}
	return m
}

// observe makes an agent with this configuration report to the metrics. It wraps Sync.Sink.
func (m *metrics) observe(c *agent.Config) {
	c.Sync.Sink = countingSink{m, c.Sync.Sink}
	c.Observe(agent.Observers{
		Sync: startObserver{metrics: m}, Workers: workObserver{metrics: m}, Watch: listObserver{metrics: m},
		Evicted: func(e eviction.Eviction) { m.add("kubelet_evictions", 1, "eviction_signal", string(e.Signal)) },
	})
}

// of returns the series with these labels, pairs of names and values. It must be called with mu held.
func (m *metrics) of(name string, labels []string) (*family, *series) {
	f, text := m.families[name], ""
	for i := 0; i < len(labels); i += 2 {
		value := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(foreign.Word(labels[i+1]))
		text += fmt.Sprintf(`,%s="%s"`, labels[i], value)
	}
	text = strings.TrimPrefix(text, ",")
	s := f.series[text]
	if s == nil && len(f.series) >= maxSeries {
		return f, &series{counts: make([]uint64, len(f.buckets))}
	}
	if s == nil {
		s = &series{counts: make([]uint64, len(f.buckets))}
		f.series[text] = s
	}
	return f, s
}

// add adds to a counter.
func (m *metrics) add(name string, n float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, s := m.of(name, labels)
	s.value += n
}

// set sets a gauge.
func (m *metrics) set(name string, value float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, s := m.of(name, labels)
	s.value = value
}

// took adds a duration to a histogram.
func (m *metrics) took(name string, took time.Duration, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, s := m.of(name, labels)
	s.value += took.Seconds()
	s.count++
	for i, most := range f.buckets {
		if took.Seconds() <= most {
			s.counts[i]++
		}
	}
}

// write writes all metrics.
func (m *metrics) write(to io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.families)) {
		f := m.families[name]
		fmt.Fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, f.help, name, f.kind)
		for _, labels := range slices.Sorted(maps.Keys(f.series)) {
			s := f.series[labels]
			sample := func(suffix, labels string, value any) {
				if labels != "" {
					labels = "{" + labels + "}"
				}
				fmt.Fprintf(to, "%s%s%s %v\n", name, suffix, labels, value)
			}
			if f.kind != "histogram" {
				sample("", labels, strconv.FormatFloat(s.value, 'g', -1, 64))
				continue
			}
			bucket := func(most string, count uint64) {
				sample("_bucket", strings.TrimPrefix(labels+`,le="`+most+`"`, ","), count)
			}
			for i, most := range f.buckets {
				bucket(strconv.FormatFloat(most, 'g', -1, 64), s.counts[i])
			}
			bucket("+Inf", s.count)
			sample("_sum", labels, s.value)
			sample("_count", labels, s.count)
		}
	}
}

// ServeHTTP serves /metrics.
func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	m.count(m.cache)
	var text bytes.Buffer
	m.write(&text)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text.Bytes()) // a disconnected caller does not need it
}

// count counts the pods and containers in the runtime.
func (m *metrics) count(cache *runtime.Cache) {
	pods, containers := 0, map[runtime.ContainerState]int{}
	for _, uid := range cache.UIDs() {
		status, _ := cache.Get(uid)
		if status.Empty() {
			continue
		}
		if status.ActiveSandbox() != nil {
			pods++
		}
		for i := range status.Containers {
			containers[status.Containers[i].State]++
		}
	}
	m.set("kubelet_running_pods", float64(pods))
	for _, state := range []runtime.ContainerState{runtime.ContainerCreated, runtime.ContainerRunning, runtime.ContainerExited, runtime.ContainerUnknown} {
		m.set("kubelet_running_containers", float64(containers[state]), "container_state", state.String())
	}
}

// call counts a call of the runtime.
func (m *metrics) call(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	var name strings.Builder // ListPodSandbox is list_podsandbox
	for i, c := range strings.Replace(path.Base(method), "PodSandbox", "Podsandbox", 1) {
		if unicode.IsUpper(c) && i > 0 {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(c))
	}
	m.add("kubelet_runtime_operations_total", 1, "operation_type", name.String())
	err := invoke(ctx, method, req, reply, conn, options...)
	if err != nil {
		m.add("kubelet_runtime_operations_errors_total", 1, "operation_type", name.String())
	}
	return err
}

type startObserver struct {
	syncpod.NopObserver
	*metrics
}

func (o startObserver) PodRunning(_ *v1.Pod, took time.Duration) {
	o.took("kubelet_pod_start_duration_seconds", took)
}

func (o startObserver) ContainerStarted(_ *v1.Pod, c actions.ContainerRef, _ time.Duration, err error) {
	kind := map[actions.ContainerKind]string{actions.InitContainer: initContainer, actions.EphemeralContainer: ephemeralContainer}[c.Kind]
	kind = orElse(kind, regularContainer)
	o.add("kubelet_started_containers_total", 1, "container_type", kind)
	if err == nil {
		return
	}
	code := "unknown"
	if failed, ok := errors.AsType[*syncpod.StepError](err); ok {
		code = string(failed.Reason)
	}
	o.add("kubelet_started_containers_errors_total", 1, "container_type", kind, "code", code)
}

// The values of the label container_type, as in a kubelet.
const (
	regularContainer   = "container"
	initContainer      = "init_container"
	ephemeralContainer = "ephemeral_container"
)

type workObserver struct {
	podworkers.NopObserver
	*metrics
}

// SyncEnded measures the work on a pod. A kubelet does not measure removals.
func (o workObserver) SyncEnded(w podworkers.Work, took time.Duration, _ error) {
	if w.Type == podworkers.RemovePod {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.ended, w.UID)
		return
	}
	kind := w.UpdateType.String()
	if w.Type == podworkers.SyncTerminatedPod {
		kind = "terminated"
	}
	o.took("kubelet_pod_worker_duration_seconds", took, "operation_type", kind)
}

type listObserver struct {
	pleg.NopObserver
	*metrics
}

func (o listObserver) Listed(_ int, _ time.Duration, err error) {
	if err == nil {
		o.set("kubelet_pleg_last_seen_seconds", float64(time.Now().UnixMilli())/1000)
	}
}

// A countingSink counts the containers that have terminated since their pod's last status.
type countingSink struct {
	*metrics
	next syncpod.StatusSink
}

// SetPodStatus counts, and passes the status on.
func (s countingSink) SetPodStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.mu.Lock()
	before, now := s.ended[pod.UID], map[string]bool{}
	for kind, list := range map[string][]v1.ContainerStatus{
		regularContainer: status.ContainerStatuses, initContainer: status.InitContainerStatuses, ephemeralContainer: status.EphemeralContainerStatuses,
	} {
		for i := range list {
			for _, t := range []*v1.ContainerStateTerminated{list[i].LastTerminationState.Terminated, list[i].State.Terminated} {
				if t == nil || t.ContainerID == "" {
					continue
				}
				if !before[t.ContainerID] && !now[t.ContainerID] {
					_, count := s.of("kubelet_terminated_containers_total", []string{"container_type", kind, "exit_code", strconv.Itoa(int(t.ExitCode)), "reason", t.Reason})
					count.value++
				}
				now[t.ContainerID] = true
			}
		}
	}
	s.ended[pod.UID] = now
	s.mu.Unlock()
	return s.next.SetPodStatus(ctx, pod, status)
}
