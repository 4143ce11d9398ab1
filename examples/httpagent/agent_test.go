package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
)

// served is an agent in virtual time with its HTTP API.
type served struct {
	*testing.T
	runtime *critest.Runtime
	http    http.Handler
}

func onNode(t *testing.T, test func(n *served)) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{})
		handler, _ := start(t, conn, t.TempDir())
		test(&served{t, rt, handler})
	})
}

// start runs an agent until the test ends or the agent is stopped.
func start(t *testing.T, conn *critest.Conn, root string) (handler http.Handler, end func()) {
	agent, err := New(agent.Config{
		Client: cri.NewClient(conn), Root: root, NoEviction: true, NoLogRotation: true, // no process writes logs, and the test machine may be under pressure
		Sync: syncpod.Config{RuntimeName: "containerd", Node: syncpod.Node{LogsRoot: filepath.Join(root, "logs")}},
	})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := agent.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return agent.Handler(), func() { cancel(); wg.Wait() }
}

// ask makes a request, and waits until all goroutines are idle.
func (n *served) ask(method, path, body string, want int) string {
	n.Helper()
	w := httptest.NewRecorder()
	n.http.ServeHTTP(w, httptest.NewRequestWithContext(n.Context(), method, path, strings.NewReader(body)))
	if w.Code != want {
		n.Errorf("%s %s %s: %d %s, want %d", method, path, body, w.Code, w.Body, want)
	}
	synctest.Wait()
	return w.Body.String()
}

func (n *served) pod(path string) v1.Pod {
	n.Helper()
	var pod v1.Pod
	must.Do(n, json.Unmarshal([]byte(n.ask("GET", path, "", 200)), &pod))
	return pod
}

// manifest returns the manifest of a pod that runs a script.
func manifest(script string) string {
	text, _ := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "app", "image": "registry.test/app:1", "command": []string{"sh", "-c", script}},
	}}})
	return string(text)
}

const (
	web = "/pods/default/web"
	// serve is a script that exits 5 s after SIGTERM.
	serve = "trap 'sleep 5; exit 0' TERM; sleep infinity & wait"
	// deaf is a script that ignores SIGTERM.
	deaf = "trap '' TERM; sleep infinity"
)

func TestPutRunsAPod(t *testing.T) {
	onNode(t, func(n *served) {
		n.ask("PUT", web, manifest(serve), 201)
		pod := n.pod(web)
		if pod.Status.Phase != v1.PodRunning || pod.Status.PodIP == "" || pod.UID == "" || pod.Name != "web" {
			t.Errorf("the pod is %+v", pod)
		}
		calls := len(n.runtime.Journal())
		n.ask("PUT", web, manifest(serve), 200)
		if changes := n.runtime.Journal().After(calls).Changes(); len(changes) > 0 {
			t.Errorf("the same once more changed something:\n%v", changes)
		}
		if list := n.ask("GET", "/pods", "", 200); strings.Count(list, `"phase":"Running"`) != 1 {
			t.Errorf("the pods are %s", list)
		}
		// The agent is not ready until the client has sent all pods.
		n.ask("GET", "/health", "", 503)
		n.ask("PUT", "/pods", "{}", 200)
		n.ask("GET", "/health", "", 200)
	})
}

// A pod with another manifest replaces the first pod after the first has stopped.
func TestPutReplacesAPod(t *testing.T) {
	onNode(t, func(n *served) {
		n.ask("PUT", web, manifest(serve), 201)
		was := n.pod(web)
		n.ask("PUT", web, manifest(deaf), 200)
		if now := n.pod(web); now.UID == was.UID || now.Status.Phase != v1.PodPending {
			t.Errorf("while the first one stops the second is %+v", now)
		}
		time.Sleep(6 * time.Second)
		if now := n.pod(web); now.Status.Phase != v1.PodRunning {
			t.Errorf("the second is %s", now.Status.Phase)
		}
		first, second := n.runtime.Journal().Pod(string(was.UID)), n.runtime.Journal().Pod(string(n.pod(web).UID))
		if stop := first.Of(critest.StopContainer)[0]; second.Of(critest.StartContainer)[0].Start.Before(stop.End) {
			t.Errorf("it was started before the first one had stopped, at %v", stop.End)
		}
	})
}

// A deleted pod is listed until it has stopped: when its container exits, or after its grace period if it ignores
// SIGTERM.
func TestDelete(t *testing.T) {
	for _, tt := range []struct {
		script, query string
		takes         time.Duration
	}{
		{serve, "", 5 * time.Second},
		{deaf, "", 30 * time.Second},
		{deaf, "?gracePeriodSeconds=7", 7 * time.Second},
		{serve, "?gracePeriodSeconds=2", 2 * time.Second},
	} {
		onNode(t, func(n *served) {
			n.ask("PUT", web, manifest(tt.script), 201)
			n.ask("DELETE", web+tt.query, "", 202)
			if pod := n.pod(web); pod.DeletionTimestamp == nil || pod.Status.Phase != v1.PodRunning {
				t.Errorf("%q: at first it is %+v, want a deletion timestamp and the phase %v", tt.query, pod, v1.PodRunning)
			}
			n.ask("PUT", web, manifest(tt.script), 409)
			time.Sleep(tt.takes - time.Millisecond)
			n.ask("GET", web, "", 200)
			time.Sleep(2 * time.Millisecond)
			n.ask("GET", web, "", 404)
			n.ask("DELETE", web, "", 404)
			n.ask("PUT", web, manifest(tt.script), 201)
			if pod := n.pod(web); pod.Status.Phase != v1.PodRunning {
				t.Errorf("once more it is %s", pod.Status.Phase)
			}
		})
	}
}

func TestDeleteAgainShortensTheTime(t *testing.T) {
	onNode(t, func(n *served) {
		n.ask("PUT", web, manifest(deaf), 201)
		n.ask("DELETE", web, "", 202)
		time.Sleep(10 * time.Second)
		n.ask("DELETE", web+"?gracePeriodSeconds=600", "", 202)
		n.ask("DELETE", web+"?gracePeriodSeconds=1", "", 202)
		time.Sleep(2 * time.Second)
		n.ask("GET", web, "", 404)
	})
}

// A pod that has finished or never started is deleted immediately.
func TestDeleteOfAPodThatDoesNotRun(t *testing.T) {
	onNode(t, func(n *served) {
		n.ask("PUT", web, strings.Replace(manifest("exit 0"), `{"containers"`, `{"restartPolicy": "Never", "containers"`, 1), 201)
		if pod := n.pod(web); pod.Status.Phase != v1.PodSucceeded {
			t.Errorf("it is %s, want %v", pod.Status.Phase, v1.PodSucceeded)
		}
		n.ask("DELETE", web, "", 200)
		n.ask("GET", web, "", 404)

		n.ask("PUT", web, strings.Replace(manifest(serve), `"image"`, `"envFrom":[{"secretRef":{"name":"none"}}],"image"`, 1), 201)
		if pod := n.pod(web); pod.Status.Phase != v1.PodPending {
			t.Errorf("without a secret that it needs it is %s", pod.Status.Phase)
		}
		n.ask("DELETE", web, "", 202)
		time.Sleep(time.Second)
		n.ask("GET", web, "", 404)
	})
}

func TestBadRequests(t *testing.T) {
	onNode(t, func(n *served) {
		ok := manifest(serve)
		for _, tt := range []struct {
			method, path, body string
			code               int
			says               string
		}{
			{"PUT", web, "", 400, "EOF"},
			{"PUT", web, "{", 400, "EOF"},
			{"PUT", web, "[]", 400, "cannot unmarshal array"},
			{"PUT", web, ok + ok, 400, "something after"},
			{"PUT", web, strings.Replace(ok, "image", "imagee", 1), 400, `unknown field \"imagee\"`},
			{"PUT", web, `{"kind": "Deployment"}`, 400, "Deployment is no Pod"},
			{"PUT", web, `{"apiVersion": "v2"}`, 400, "v2"},
			{"PUT", web, `{"metadata": {"name": "db"}}`, 400, "metadata.name: db"},
			{"PUT", web, `{"metadata": {"namespace": "other"}}`, 400, "metadata.namespace: other"},
			{"PUT", web, `{"metadata": {"uid": "1"}}`, 400, "metadata.uid"},
			{"PUT", web, `{"spec": {}}`, 422, "spec.containers"},
			{"PUT", "/pods/default/Web", ok, 422, "metadata.name"},
			{"PUT", web, strings.Replace(ok, `"app"`, `"`+strings.Repeat("a", maxBody)+`"`, 1), 413, "more than"},
			{"PUT", "/pods", `{"items": [{"kind": "Node"}]}`, 400, "items[0]: kind"},
			{"PUT", "/pods", `{"items": [{"metadata": {"namespace": "default", "name": "web"}}]}`, 422, "spec.containers"},
			{"DELETE", web + "?gracePeriodSeconds=soon", "", 400, "gracePeriodSeconds=soon"},
			{"DELETE", web + "?gracePeriodSeconds=-1", "", 400, "gracePeriodSeconds=-1"},
			{"DELETE", web, "", 404, "no such pod"},
			{"GET", web, "", 404, "no such pod"},
			{"POST", web, ok, 405, ""},
			{"GET", "/nothing", "", 404, ""},
		} {
			if got := n.ask(tt.method, tt.path, tt.body, tt.code); !strings.Contains(got, tt.says) {
				t.Errorf("%s %s: %s, want it to say %q", tt.method, tt.path, got, tt.says)
			}
		}
		if changes := n.runtime.Journal().Changes(); len(changes) > 0 {
			t.Errorf("this was done:\n%v", changes)
		}
	})
}

// The next agent adopts the pods that are PUT again, and stops the others once the client sends a complete list.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{})
		root := t.TempDir()
		handler, end := start(t, conn, root)
		n := &served{t, rt, handler}
		n.ask("PUT", web, manifest(serve), 201)
		n.ask("PUT", "/pods/default/db", manifest(serve), 201)
		kept, gone := n.pod(web), n.pod("/pods/default/db")
		end()
		calls := len(rt.Journal())

		n.http, _ = start(t, conn, root)
		synctest.Wait()
		n.ask("PUT", web, manifest(serve), 201)
		if pod := n.pod(web); pod.UID != kept.UID || pod.Status.PodIP != kept.Status.PodIP {
			t.Errorf("it was %+v, and is %+v", kept, pod)
		}
		time.Sleep(time.Hour)
		if changes := rt.Journal().After(calls).Changes(); len(changes) > 0 {
			t.Errorf("this was done to pods that ran:\n%v", changes)
		}
		n.ask("PUT", "/pods", `{"items": [`+strings.Replace(manifest(serve), "{", `{"metadata": {"namespace": "default", "name": "web"},`, 1)+`]}`, 200)
		time.Sleep(time.Minute)
		stops := rt.Journal().After(calls).Of(critest.StopContainer)
		if len(stops) != 1 || stops[0].PodUID != string(gone.UID) {
			t.Errorf("stopped was\n%v", stops)
		}
	})
}
