package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// A running pod, a crashing one, a registry that fails at first, and an unavailable runtime all appear in the metrics
// and in the log.
func TestObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.RunPodSandbox: 500 * time.Millisecond}})
		_, err := rt.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: 2, Err: status.Error(codes.Unavailable, "registry unavailable")})
		must.Do(t, err)
		var log bytes.Buffer
		root, pods := t.TempDir(), source.NewPush()
		agent := must.Get(New(slog.New(slog.NewJSONHandler(&log, nil)), agent.Config{
			Client: cri.NewClient(conn), Root: root, Sources: []source.Source{pods},
			Sync:       syncpod.Config{RuntimeName: "containerd", Node: syncpod.Node{LogsRoot: filepath.Join(root, "logs")}},
			NoEviction: true, // pods in memory do not fill the disk of the test machine
		}))(t)
		go func() {
			if err := agent.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		web, crashing := pod("web", "trap 'sleep 2; exit 0' TERM; sleep infinity & wait"), pod("crashing", "exit 3")
		web.Spec.Containers[0].Image = "registry.test/web:1" // so that each pod has its own pull
		must.Do(t, pods.Set(web, crashing))
		time.Sleep(5 * time.Second)
		expect(t, scrape(t, agent), map[string]string{`podsync_healthy`: "0", `podsync_pods{phase="Pending"}`: "2"})
		time.Sleep(10 * time.Second) // the pull is retried after 10 s
		expect(t, scrape(t, agent), map[string]string{
			`podsync_healthy`:               "1",
			`podsync_pods{phase="Running"}`: "2",
			`podsync_container_restarts{pod="default/web",container="app"}`: "0",
			`podsync_sandbox_create_seconds_count{outcome="ok"}`:            "2",
			`podsync_sandbox_create_seconds_sum{outcome="ok"}`:              "1",
			`podsync_container_start_seconds_count{outcome="failed"}`:       "2",
			`podsync_image_pull_seconds_count{outcome="failed"}`:            "2",
			`podsync_image_pull_seconds_count{outcome="ok"}`:                "2",
			`podsync_pod_start_seconds_count`:                               "2",
		})
		if kept, err := filepath.Glob(filepath.Join(root, "images", "*", "*")); err != nil || len(kept) == 0 {
			t.Errorf("nothing is kept of who may use which image: %v", err)
		}
		must.Do(t, rt.Restart(faults.Restart{Down: 20 * time.Second, Disconnect: true}))
		time.Sleep(15 * time.Second)
		expect(t, scrape(t, agent), map[string]string{`podsync_healthy`: "0", `podsync_event_streams_lost_total`: "1"})
		time.Sleep(15 * time.Second)
		must.Do(t, pods.Set())
		time.Sleep(time.Minute)
		expect(t, scrape(t, agent), map[string]string{
			`podsync_healthy`: "1",
			`podsync_container_stop_seconds_count{outcome="ok"}`:                "1",
			`podsync_container_stop_seconds_sum{outcome="ok"}`:                  "2",
			`podsync_work_seconds_count{type="SyncTerminatedPod",outcome="ok"}`: "2",
			`podsync_pods{phase="Running"}`:                                     "",
		})
		synctest.Wait()
		logs(t, log.String(), "INFO", "pod moved on")
		logs(t, log.String(), "ERROR", "work failed")
	})
}

func TestOnlyMetricsAreServed(t *testing.T) {
	agent := &Agent{counts: newMetrics()}
	for _, request := range []string{"GET /", "POST /metrics"} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		agent.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != 404 {
			t.Errorf("%s: %d, want 404", request, w.Code)
		}
	}
}

// scrape returns the metrics by name.
func scrape(t *testing.T, agent *Agent) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	agent.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	values := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		i := strings.LastIndex(line, " ")
		values[line[:i]] = strings.TrimSpace(line[i:])
	}
	return values
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

// logs fails the test if the log has no line with this level and message.
func logs(t *testing.T, log, level, message string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var record struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if record.Level == level && record.Msg == message {
			return
		}
	}
	t.Errorf("no line of the level %s says %q in\n%s", level, message, log)
}
