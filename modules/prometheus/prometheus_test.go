package prometheus_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/prometheus"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// An agent is an agent with Metrics.
type agent struct {
	*nodeagent.Agent
	t       *testing.T
	metrics *prometheus.Metrics
	cgroups *cgroups
	rt      *critest.Runtime
	pods    *source.Push
}

// newAgent runs an agent in the current synctest bubble until the test ends.
func newAgent(t *testing.T) *agent {
	t.Helper()
	dir := t.TempDir()
	rt, _ := critest.Start(t, critest.Config{Dir: dir})
	a := &agent{t: t, rt: rt, pods: source.NewPush()}
	var err error
	if a.metrics, err = prometheus.New(prometheus.Config{NodeName: "node1"}); err != nil {
		t.Fatal(err)
	}
	conn := must.Get(rt.Dial(a.metrics.DialOptions()...))(t)
	config := nodeagent.Config{
		Client: cri.NewClient(conn), Sources: []source.Source{a.pods}, Root: dir + "/root",
		NoEviction: true, // the test machine may be under pressure
		Sync:       syncpod.Config{Node: syncpod.Node{LogsRoot: dir + "/logs"}, RuntimeName: "critest"},
	}
	a.cgroups = &cgroups{}
	config.Sync.Extensions.Cgroups = a.cgroups
	a.metrics.Observe(&config)
	if got := config.Sync.Extensions.Cgroups.PodsCgroup(); got != "/pods" { // evictions read their signal there
		t.Errorf("the cgroup of all pods is %q behind the metrics, want %q", got, "/pods")
	}
	if a.Agent, err = nodeagent.New(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, conn.Close()); err != nil {
			t.Error(err)
		}
	})
	return a
}

// scrape requests the metrics as Prometheus does, and parses the answer with Prometheus' parser.
func (a *agent) scrape(path string) map[string]*dto.MetricFamily {
	a.t.Helper()
	return scrape(a.t, a.metrics, a, path)
}

func scrape(t *testing.T, m *prometheus.Metrics, agent prometheus.Agent, path string) map[string]*dto.MetricFamily {
	t.Helper()
	handler := must.Get(m.Handler(agent))(t)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d, %v, want 200 and no error", w.Code, err)
	}
	return families
}

// value returns the value of one metric; for a histogram, the number of observations.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		is := len(m.Label)*2 == len(labels)
		for i, l := range m.Label {
			is = is && l.GetName() == labels[2*i] && l.GetValue() == labels[2*i+1]
		}
		switch {
		case !is:
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		}
	}
	return -1
}

func pod(name, script string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever,
			Containers: []v1.Container{{
				Name: "app", Image: "registry.test/app:1", Command: []string{"sh", "-c", script},
				VolumeMounts: []v1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			}},
			Volumes: []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
		},
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		_, err := a.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: 1, Err: status.Error(codes.Unavailable, "registry unavailable")})
		must.Do(t, err)
		job := pod("job", "sleep 20")
		job.Spec.Containers[0].Image = "registry.test/job:1" // two pods may share a pull, and its failure
		must.Do(t, a.pods.Set(pod("web", "sleep infinity"), job))
		time.Sleep(time.Minute)
		synctest.Wait()
		a.metrics.CountEviction("memory.available")
		a.metrics.CountPreemption(v1.ResourceCPU)
		got := a.scrape("/metrics")
		for _, want := range []struct {
			value float64
			name  string
			label []string
		}{
			{1, "kubelet_node_name", []string{"node", "node1"}},
			{1, "kubelet_running_pods", nil},
			{1, "kubelet_running_containers", []string{"container_state", "running"}},
			{1, "kubelet_running_containers", []string{"container_state", "exited"}},
			{0, "kubelet_running_containers", []string{"container_state", "created"}},
			{2, "kubelet_pod_start_duration_seconds", nil},
			{1, "kubelet_pod_worker_duration_seconds", []string{"operation_type", "terminated"}},
			{2, "kubelet_runtime_operations_total", []string{"operation_type", "run_podsandbox"}},
			{2, "kubelet_runtime_operations_total", []string{"operation_type", "create_container"}},
			{1, "kubelet_runtime_operations_errors_total", []string{"operation_type", "pull_image"}},
			{-1, "kubelet_runtime_operations_errors_total", []string{"operation_type", "create_container"}},
			{2, "kubelet_runtime_operations_duration_seconds", []string{"operation_type", "start_container"}},
			{1, "volume_manager_total_volumes", []string{"plugin_name", "kubernetes.io/empty-dir", "state", "desired_state_of_world"}},
			{1, "kubelet_evictions", []string{"eviction_signal", "memory.available"}},
			{1, "kubelet_preemptions", []string{"preemption_signal", "cpu"}},
			{2, "kubelet_started_pods_total", nil},
			{0, "kubelet_started_pods_errors_total", nil},
			{3, "kubelet_started_containers_total", []string{"container_type", "container"}},
			{1, "kubelet_started_containers_errors_total", []string{"code", "ErrImagePull", "container_type", "container"}},
			{1, "kubelet_terminated_containers_total", []string{"container_type", "container", "exit_code", "0", "reason", "Completed"}},
			{2, "kubelet_cgroup_manager_duration_seconds", []string{"operation_type", "create"}},
			{1, "kubelet_cgroup_manager_duration_seconds", []string{"operation_type", "destroy"}},
		} {
			if v := value(got, want.name, want.label...); v != want.value {
				t.Errorf("%s %v is %v, want %v", want.name, want.label, v, want.value)
			}
		}
		for _, name := range []string{"kubelet_pleg_relist_duration_seconds", "kubelet_pleg_last_seen_seconds", "go_goroutines"} {
			if value(got, name) <= 0 {
				t.Errorf("%s is %v, want more than 0", name, value(got, name))
			}
		}
		mounts := []string{"migrated", "false", "operation_name", "volume_mount", "status", "success", "volume_plugin", "kubernetes.io/empty-dir"}
		for name, labels := range map[string][]string{
			"kubelet_pod_worker_duration_seconds":     {"operation_type", "create"},
			"kubelet_cgroup_manager_duration_seconds": {"operation_type", "update"},
			"storage_operation_duration_seconds":      mounts,
		} {
			if value(got, name, labels...) < 1 {
				t.Errorf("%v, want at least 1", got[name])
			}
		}
	})
}

// Each terminated container counts once: also if it terminated between two statuses, and after an agent restart.
func TestTerminations(t *testing.T) {
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id, ExitCode: 3, Reason: "Error"}}
	}
	status := func(last, state v1.ContainerState) v1.PodStatus {
		return v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "app", LastTerminationState: last, State: state}}}
	}
	m := must.Get(prometheus.New(prometheus.Config{NodeName: "node1"}))(t)
	var config nodeagent.Config
	passed := 0
	config.Sync.Sink = syncpod.StatusSinkFunc(func(context.Context, *v1.Pod, v1.PodStatus) error { passed++; return nil })
	m.Observe(&config)
	p := pod("web", "sleep infinity")
	p.Status = status(v1.ContainerState{}, ended("earlier"))
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	for i, step := range []struct {
		status v1.PodStatus
		want   float64
	}{
		{status(v1.ContainerState{}, ended("earlier")), -1},
		{status(ended("earlier"), running), -1},
		{status(ended("first"), running), 1}, // it ended between two statuses
		{status(ended("first"), ended("second")), 2},
		{status(ended("second"), running), 2},
		{v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "app", State: ended("")}}}, 2}, // it never ran
	} {
		must.Do(t, config.Sync.Sink.SetPodStatus(t.Context(), p, step.status))
		got := value(scrape(t, m, none{}, "/metrics"), "kubelet_terminated_containers_total", "container_type", "init_container", "exit_code", "3", "reason", "Error")
		if got != step.want || passed != i+1 {
			t.Errorf("step %d: %v, and %d statuses were passed on; want %v and %d", i, got, passed, step.want, i+1)
		}
	}
}

// Deleted pods leave no series behind.
func TestSeriesDoNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		var series []int
		for range 3 {
			for _, name := range []string{"a", "b", "c"} {
				must.Do(t, a.pods.Set(pod(name, "sleep infinity")))
				time.Sleep(time.Minute)
				synctest.Wait()
			}
			n := 0
			for name, f := range a.scrape("/metrics") {
				if strings.HasPrefix(name, "kubelet_") {
					n += len(f.Metric)
				}
				if strings.Contains(f.String(), "uid-of") {
					t.Errorf("%v, want no %q in it", f, "uid-of")
				}
			}
			series = append(series, n)
		}
		if series[2] != series[1] {
			t.Errorf("%v series, want %v", series, series[1])
		}
	})
}

func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := must.Get(prometheus.New(prometheus.Config{NodeName: "node1"}))(t)
		config := nodeagent.Config{}
		m.Observe(&config)
		watch := config.Watch.Observer
		watch.Listed(1, 2*time.Second, nil)
		seen := float64(time.Now().Unix())
		time.Sleep(time.Minute)
		watch.Listed(0, time.Second, errors.New("unavailable"))
		families := map[string]*dto.MetricFamily{}
		metrics := make(chan client.Metric, 100)
		go func() { defer close(metrics); m.Collector(none{}).Collect(metrics) }()
		for metric := range metrics {
			var d dto.Metric
			must.Do(t, metric.Write(&d))
			name := strings.Split(metric.Desc().String(), `"`)[1]
			families[name] = &dto.MetricFamily{Metric: []*dto.Metric{&d}}
		}
		if h := families["kubelet_pleg_relist_interval_seconds"].Metric[0].Histogram; h.GetSampleCount() != 1 || h.GetSampleSum() != 61 {
			t.Errorf("intervals %v, want SampleCount 1 and SampleSum 61", h)
		}
		if h := families["kubelet_pleg_relist_duration_seconds"].Metric[0].Histogram; h.GetSampleCount() != 2 || h.GetSampleSum() != 3 {
			t.Errorf("durations %v, want SampleCount 2 and SampleSum 3", h)
		}
		if g := families["kubelet_pleg_last_seen_seconds"].Metric[0].Gauge.GetValue(); g != seen {
			t.Errorf("last seen %v, want %v", g, seen)
		}
	})
}

// cgroups records the pods that have a cgroup.
type cgroups struct {
	mu     sync.Mutex
	ensure []types.UID
}

func (c *cgroups) EnsureCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ensure = append(c.ensure, pod.UID)
	return "/pods", nil
}

func (c *cgroups) RaiseCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	return c.EnsureCgroup(ctx, pod)
}

func (c *cgroups) RemovePod(context.Context, types.UID) error { return nil }

func (*cgroups) PodsCgroup() string { return "/pods" }

// none is an agent without pods.
type none struct{}

func (none) Pods() []loop.Pod      { return nil }
func (none) Cache() *runtime.Cache { return &runtime.Cache{} }

func TestNodeNameIsRequired(t *testing.T) {
	if _, err := prometheus.New(prometheus.Config{}); err == nil || !strings.Contains(err.Error(), "Config.NodeName") {
		t.Errorf("%v, want an error and %q in it", err, "Config.NodeName")
	}
}

// Metrics count each eviction of a Loop, and still call Config.Evicted.
func TestEvictions(t *testing.T) {
	m := must.Get(prometheus.New(prometheus.Config{NodeName: "node1"}))(t)
	told := 0
	config := nodeagent.Config{Evicted: func(eviction.Eviction) { told++ }}
	m.Observe(&config)
	config.Evicted(eviction.Eviction{Signal: eviction.EmptyDirLimit})
	if got := value(scrape(t, m, none{}, "/metrics"), "kubelet_evictions", "eviction_signal", "emptydirfs.limit"); got != 1 || told != 1 {
		t.Errorf("counted %v, the callback was called %d times, want 1 and 1", got, told)
	}
}
