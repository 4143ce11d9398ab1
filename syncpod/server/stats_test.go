package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/server"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// proc is a node whose kernel reports few values.
var proc = fstest.MapFS{
	"proc/stat":               file("cpu 700 0 300 9000 0 0 0 0 0 0\nbtime 1790000000\n"),
	"proc/meminfo":            file("MemTotal: 8000 kB\nBuffers: 0 kB\nCached: 3000 kB\nSwapCached: 0 kB\nInactive(file): 1000 kB\nAnonPages: 2000 kB\n"),
	"proc/loadavg":            file("0.10 0.20 0.30 2/345 6789\n"),
	"proc/sys/kernel/pid_max": file("4194304\n"),
	"proc/1/net/dev":          file("Inter-|\neth0: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n"),
}

// withProc has the server read that node.
func withProc(t testing.TB) func(*server.Config) {
	return func(c *server.Config) {
		c.Stats = must.Get(stats.New(stats.Config{Runtime: c.Client, Root: proc, Dir: t.TempDir()}))(t)
	}
}

func TestSummary(t *testing.T) {
	n := newNode(t, withProc(t))
	n.run("web", "sleep infinity", isRunning)
	n.run("over", "exit 0", isOver)
	n.wait(func() bool { _, text := n.ask("GET", "/runningpods"); return !strings.Contains(text, `"over"`) })
	type used struct {
		Name      string
		StartTime time.Time
		CPU       struct{ UsageNanoCores, UsageCoreNanoSeconds uint64 }
		Memory    struct{ WorkingSetBytes, AvailableBytes uint64 }
		Network   *struct{ Name string }
		FS        *struct{ CapacityBytes uint64 }
	}
	for _, query := range []string{"", "?only_cpu_and_memory=true"} {
		code, text := n.ask("GET", "/stats/summary"+query)
		var got struct {
			Node struct {
				NodeName string
				used
				Rlimit *struct{ MaxPID, CurProc uint64 }
			}
			Pods []struct {
				PodRef struct{ Name, Namespace, UID string }
				used
				Containers []used
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || code != 200 || len(got.Pods) != 1 {
			t.Fatalf("%d %s: %v, want code 200 and one pod", code, text, err)
		}
		if n := got.Node; n.NodeName != "node1" || n.CPU.UsageCoreNanoSeconds != 1e10 || n.Memory.WorkingSetBytes != 4000<<10 || n.StartTime.Unix() != 1790000000 {
			t.Errorf("node: %s, want NodeName %q and UsageCoreNanoSeconds 1e10 and WorkingSetBytes %v and Unix 1790000000", text, "node1", 4000<<10)
		}
		if n := got.Node; (n.Network == nil) != (query != "") || (n.FS == nil) != (query != "") {
			t.Errorf("%q: %s, want network and file system only without a query", query, text)
		}
		if n := got.Node; query == "" && (n.Rlimit == nil || n.Rlimit.MaxPID != 4194304 || n.Rlimit.CurProc != 345) || query != "" && n.Rlimit != nil {
			t.Errorf("%q: %s, want maxpid 4194304 and curproc 345 without a query", query, text)
		}
		p := got.Pods[0]
		if p.PodRef.Name != "web" || p.PodRef.Namespace != "default" || p.PodRef.UID != "uid-of-web" || p.Memory.WorkingSetBytes != 2<<20 || len(p.Containers) != 1 {
			t.Fatalf("pod: %s, want name %q, namespace %q, UID %q, a working set of %v and one container", text, "web", "default", "uid-of-web", 2<<20)
		}
		if c := p.Containers[0]; c.Name != "app" || c.CPU.UsageNanoCores != 1e7 || c.Memory.WorkingSetBytes != 1<<20 || time.Since(c.StartTime) > patience {
			t.Errorf("container: %s, want Name %q and UsageNanoCores 1e7 and WorkingSetBytes %v and at most %v", text, "app", 1<<20, patience)
		}
	}
}

var sample = regexp.MustCompile(`^([a-z_]+)(\{[^}]*\})? ([0-9.e+-]+)( [0-9]{13})?$`)

func TestResourceMetrics(t *testing.T) {
	n := newNode(t, withProc(t))
	n.run("web", "sleep infinity", isRunning)
	code, text := n.ask("GET", "/metrics/resource")
	if code != 200 {
		t.Fatal(code, text)
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		m := sample.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("%q is no sample", line)
		}
		values[m[1]+m[2]] = m[3]
		if timeless := strings.Contains(m[1], "start_time") || strings.Contains(m[1], "error"); timeless != (m[4] == "") {
			t.Errorf("the time of %s", line)
		}
	}
	for name, want := range map[string]string{
		"node_cpu_usage_seconds_total":                                                      "10",
		"node_memory_working_set_bytes":                                                     "4.096e+06",
		`pod_memory_working_set_bytes{pod="web",namespace="default"}`:                       "2.097152e+06",
		`container_memory_working_set_bytes{container="app",pod="web",namespace="default"}`: "1.048576e+06",
		"resource_scrape_error":                                                             "0",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	for _, name := range []string{
		`pod_cpu_usage_seconds_total{pod="web",namespace="default"}`,
		`container_cpu_usage_seconds_total{container="app",pod="web",namespace="default"}`,
		`container_start_time_seconds{container="app",pod="web",namespace="default"}`,
	} {
		if values[name] == "" {
			t.Errorf("there is no %s in\n%s", name, text)
		}
	}
}

// A pod ends while the next pod with its name runs: no series is duplicated.
func TestResourceMetricsOfPodsOfOneName(t *testing.T) {
	n := newNode(t, withProc(t))
	old := n.run("web", "trap '' TERM; sleep infinity", isRunning)
	n.pods.Delete(old.UID)
	next := old.DeepCopy()
	next.UID = "uid-of-the-next"
	n.set(next, isRunning)
	_, text := n.ask("GET", "/stats/summary")
	if !strings.Contains(text, `"uid-of-web"`) || !strings.Contains(text, `"uid-of-the-next"`) {
		t.Fatalf("want both pods in %s", text)
	}
	_, text = n.ask("GET", "/metrics/resource")
	if got := strings.Count(text, `pod_memory_working_set_bytes{pod="web",namespace="default"}`); got != 1 {
		t.Errorf("the pod's series is there %d times, want once:\n%s", got, text)
	}
}

func TestFiguresThatCannotBeRead(t *testing.T) {
	n := newNode(t, withProc(t))
	n.run("web", "sleep infinity", isRunning)
	n.fail(critest.ListPodSandboxStats, "broken disk", faults.Always)
	n.fail(critest.ListContainerStats, "broken disk", faults.Always)
	_, text := n.ask("GET", "/metrics/resource")
	for _, want := range []string{"resource_scrape_error 1\n", "node_cpu_usage_seconds_total 10 ", `container_start_time_seconds{container="app"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "pod_cpu") || strings.Contains(text, "broken") {
		t.Errorf("%v, want no %q in it and no %q in it", text, "pod_cpu", "broken")
	}
	n.want("GET", "/stats/summary", 200, `"podRef":{"name":"web"`)
}

func TestOneReadingForAll(t *testing.T) {
	n := newNode(t, withProc(t))
	n.run("web", "sleep infinity", isRunning)
	gate := &faults.Gate{}
	must.Get(n.Inject(faults.Fault{Match: faults.Match{Method: critest.ListPodSandboxStats}, Hang: gate}))(t)
	var asked sync.WaitGroup
	for range 30 {
		asked.Go(func() { n.want("GET", "/metrics/resource", 200, "pod_cpu_usage_seconds_total") })
	}
	n.wait(func() bool { return len(n.Journal().Of(critest.ListPodSandboxStats)) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics/resource", nil).WithContext(ctx)) // who does not wait
	if w.Code != 500 {
		t.Errorf("%d %s, want 500", w.Code, w.Body)
	}
	gate.Open()
	asked.Wait()
	if calls := n.Journal().Of(critest.ListPodSandboxStats); len(calls) > 5 {
		t.Errorf("30 requests made %d calls", len(calls))
	}
	time.Sleep(time.Second)
	before := len(n.Journal().Of(critest.ListPodSandboxStats))
	n.want("GET", "/metrics/resource", 200, "pod_cpu_usage_seconds_total")
	if calls := n.Journal().Of(critest.ListPodSandboxStats); len(calls) != before+1 {
		t.Errorf("after a second figures were not read again: %d calls", len(calls)-before)
	}
}

func TestMetricsOfTheEmbedder(t *testing.T) {
	n := newNode(t, nil)
	n.want("GET", "/metrics", 404, "no metrics")
	n.want("GET", "/metrics/probes", 404, "no metrics")
	n = newNode(t, func(c *server.Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("of " + r.URL.Path)) })
	})
	n.want("GET", "/metrics", 200, "of /metrics")
	n.want("GET", "/metrics/probes", 200, "of /metrics/probes")
	n.want("GET", "/metrics/others", 404, "not found")
	n.want("POST", "/plan", 404, "this agent plans nothing")
	n.want("POST", "/drain", 404, "this agent is not drained over its API")
	n.want("GET", "/timeline", 404, "no timeline is recorded")
	n = newNode(t, func(c *server.Config) {
		c.Timeline = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("of " + r.URL.RawQuery)) })
	})
	n.want("GET", "/timeline?pod=web", 200, "of pod=web")
}

// odd is an agent whose runtime has a pod with an arbitrary name.
type odd struct{ cache runtime.Cache }

func (*odd) Pods() []loop.Pod        { return nil }
func (*odd) Health() loop.Health     { return loop.Health{} }
func (o *odd) Cache() *runtime.Cache { return &o.cache }

func (*odd) Explain(types.UID) string { return "" }

// usageRuntime is a runtime that returns one pod's usage.
type usageRuntime struct {
	runtimeapi.RuntimeServiceClient
}

func (usageRuntime) ListPodSandboxStats(context.Context, *runtimeapi.ListPodSandboxStatsRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: []*runtimeapi.PodSandboxStats{{
		Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"},
		Linux:      &runtimeapi.LinuxPodSandboxStats{Cpu: &runtimeapi.CpuUsage{Timestamp: 1e18, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: 5e8}}},
	}}}, nil
}

func TestMetricsOfOddNames(t *testing.T) {
	agent := &odd{}
	agent.cache.Set("u", &runtime.PodStatus{
		UID: "u", Name: "a\"} 1\nnode_cpu 7\\", Namespace: "\xff", Sandboxes: []runtime.SandboxStatus{{ID: "s", State: runtime.SandboxReady}},
	}, nil, time.Now())
	config := server.Config{Agent: agent, Client: &cri.Client{RuntimeServiceClient: usageRuntime{}}, Authenticator: everybody{}, Authorizer: everybody{}}
	withProc(t)(&config)
	s := must.Get(server.New(config))(t)
	text := ask(s, "GET", "/metrics/resource").Body.String()
	want := `pod_cpu_usage_seconds_total{pod="a\"} 1\nnode_cpu 7\\",namespace="` + "\uFFFD" + `"} 0.5 1000000000000` + "\n"
	if !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
}
