package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

func TestLogs(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "echo one; echo two >&2; echo three; sleep infinity", isRunning)
	const logs = "/containerLogs/default/web/app"
	n.wait(func() bool { _, text := n.ask("GET", logs); return strings.Contains(text, "three") })
	for _, tt := range []struct {
		path string
		code int
		text string
	}{
		{logs, 200, "one\ntwo\nthree\n"},
		{logs + "?tailLines=1", 200, "three\n"},
		{logs + "?tail=2", 200, "two\nthree\n"},
		{logs + "?tail=all&tailLines=1", 200, "one\ntwo\nthree\n"},
		{logs + "?stream=Stderr", 200, "two\n"},
		{logs + "?limitBytes=5&follow=false", 200, "one\nt"},
		{logs + "?sinceTime=2100-01-01T00:00:00Z", 200, ""},
		{logs + "?tailLines=x", 400, `tailLines: "x" is not a number`},
		{logs + "?sinceTime=yesterday", 400, "sinceTime"},
		{logs + "?tailLines=-1", 422, "tailLines: Invalid value: -1"},
		{logs + "?sinceSeconds=1&sinceTime=2100-01-01T00:00:00Z", 422, "sinceTime"},
		{logs + "?stream=both", 422, "stream"},
		{logs + "?previous=true", 400, `previous terminated container "app" in pod "web" not found`},
		{"/containerLogs/default/web/other", 404, `container "other" not found in pod "web"`},
		{"/containerLogs/default/none/app", 404, `pod "default/none" does not exist`},
		{"/containerLogs/default/we%2Fb/app", 404, `pod "default/we/b" does not exist`},
		{"/containerLogs/default/..%2Fweb/app", 404, "there is no path"},
		{"/containerLogs/default/web", 404, ""},
	} {
		code, text := n.ask("GET", tt.path)
		if code != tt.code || code == 200 && text != tt.text || !strings.Contains(text, tt.text) {
			t.Errorf("%s: %d %q, want %d %q", tt.path, code, text, tt.code, tt.text)
		}
	}
	n.want("POST", logs, 405, "Method Not Allowed")
}

// TestLogsOfInstances checks that a container's log is the log of its last instance.
func TestLogsOfInstances(t *testing.T) {
	n := newNode(t, nil)
	n.run("over", "echo bye; exit 3", isOver)
	n.want("GET", "/containerLogs/default/over/app", 200, "bye\n")
	n.want("GET", "/containerLogs/default/over/app?follow=1", 200, "bye\n")
	n.want("GET", "/containerLogs/default/over/app?previous", 400, "previous terminated")

	pod := n.run("crash", "echo run; exit 1", isOver).DeepCopy()
	pod.Name, pod.UID, pod.Spec.RestartPolicy = "again", "uid-of-again", v1.RestartPolicyAlways
	n.set(pod, func(s v1.PodStatus) bool {
		return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].RestartCount == 1
	})
	n.want("GET", "/containerLogs/default/again/app", 200, "run\n")
	n.want("GET", "/containerLogs/default/again/app?previous=true", 200, "run\n")

	n.fail(critest.PullImage, "no such image", faults.Always)
	slow := pod.DeepCopy()
	slow.Name, slow.UID, slow.Spec.Containers[0].Image = "slow", "uid-of-slow", "registry.test/other:1"
	n.set(slow, func(s v1.PodStatus) bool { return len(s.ContainerStatuses) > 0 })
	n.want("GET", "/containerLogs/default/slow/app", 400, "waiting to start")
}

func TestFollowLogs(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "echo one; while test ! -e /go; do sleep 0.02; done; echo two; exit 0", isRunning)
	resp := must.Get(http.Get(n.url + "/containerLogs/default/web/app?follow=true"))(t)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "one" {
		t.Fatalf("%q, %v, want line %q", lines.Text(), lines.Err(), "one")
	}
	n.want("POST", "/run/default/web/app?cmd=touch+/go", 200, "")
	if !lines.Scan() || lines.Text() != "two" {
		t.Errorf("%q, %v, want line %q", lines.Text(), lines.Err(), "two")
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end of the container: %q, %v", lines.Text(), lines.Err())
	}
}

func TestFollowOfAQuietLogBeginsAtOnce(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, "GET", n.url+"/containerLogs/default/web/app?follow=true", nil))(t)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	resp.Body.Close() // the caller has enough; the test's end shows whether it ends
}

func TestLogsThatCannotBeRead(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "echo one; sleep infinity", isRunning)
	n.fail(critest.ContainerStatus, "broken", 1)
	n.want("GET", "/containerLogs/default/web/app", 500, "broken")
	resp := must.Get(runtimeStatus(n))(t)
	must.Do(t, os.Remove(resp))
	for _, follow := range []string{"", "?follow=1"} {
		n.want("GET", "/containerLogs/default/web/app"+follow, 404, "0.log")
	}
}

// runtimeStatus returns the path of the only log.
func runtimeStatus(n *node) (string, error) {
	paths, err := filepath.Glob(filepath.Join(n.logsRoot(), "*", "*", "*.log"))
	if err != nil || len(paths) != 1 {
		return "", errors.Join(err, errors.New("not one log: "+strings.Join(paths, ", ")))
	}
	return paths[0], nil
}

func TestRun(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	n.run("over", "exit 0", isOver)
	n.want("POST", "/run/default/web/app?cmd=echo+a+b", 200, "a b\n")
	n.want("POST", "/run/default/web/uid-of-web/app?cmd=echo+a+b", 200, "a b\n")
	n.want("POST", "/run/default/web/uid-of-another/app?cmd=echo", 404, "does not exist")
	n.want("POST", "/run/default/web/app?cmd=cat+/none", 500, "exit code 1: cat: can't open")
	n.want("POST", "/run/default/web/app", 400, "cmd is missing")
	n.want("POST", "/run/default/over/app?cmd=echo", 404, `container "app" of pod "over" is not running`)
	n.want("GET", "/run/default/web/app?cmd=echo", 405, "Method Not Allowed")
}

func TestPods(t *testing.T) {
	n := newNode(t, nil)
	n.want("GET", "/pods", 200, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)
	n.run("web", "sleep infinity", isRunning)
	n.run("over", "exit 0", isOver)
	var pods v1.PodList
	for path, want := range map[string]int{"/pods": 2, "/pods/": 2, "/runningpods": 1, "/runningpods/": 1} {
		n.wait(func() bool {
			code, text := n.ask("GET", path)
			pods = v1.PodList{}
			if err := json.Unmarshal([]byte(text), &pods); err != nil || code != 200 {
				t.Fatalf("%s: %d, %v, want 200 and no error", path, code, err)
			}
			return len(pods.Items) == want
		})
		last := pods.Items[len(pods.Items)-1]
		if last.Name != "web" || last.Namespace != "default" || last.UID != "uid-of-web" || last.Spec.Containers[0].Image != "registry.test/app:1" {
			t.Errorf("%s: %+v, want Name %q and Namespace %q and UID %q and Image %q", path, last, "web", "default", "uid-of-web", "registry.test/app:1")
		}
		if path == "/pods" && (last.Status.Phase != v1.PodRunning || pods.Items[0].Status.Phase != v1.PodSucceeded) {
			t.Errorf("the statuses are %+v", pods.Items)
		}
	}
}

func TestHealth(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	n.want("GET", "/healthz", 200, "ok")
	for _, check := range []string{"ping", "log", "syncloop"} {
		n.want("GET", "/healthz/"+check, 200, "ok")
	}
	n.want("GET", "/healthz/other", 404, "no check")
	n.fail(critest.ListPodSandbox, "broken disk", faults.Always)
	n.DisconnectEvents(status.Error(codes.Unavailable, "gone"))
	n.wait(func() bool { code, _ := n.ask("GET", "/healthz"); return code == 500 })
	n.want("GET", "/healthz", 500, "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed")
	n.want("GET", "/healthz/syncloop", 500, "broken disk")
	n.want("GET", "/healthz/ping", 200, "ok")
}

func TestConfigz(t *testing.T) {
	n := newNode(t, nil)
	n.want("GET", "/configz", 404, "no configuration")
	n = newNode(t, func(c *server.Config) { c.Configz = map[string]string{"agent": "mine"} })
	n.want("GET", "/configz", 200, `{"agent":"mine"}`)
}

func TestNodeLogs(t *testing.T) {
	n := newNode(t, nil)
	n.want("GET", "/logs/", 405, "not served")
	dir := t.TempDir()
	for name, text := range map[string]string{"messages": "boot", "app.d/log": "of an app"} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must.Do(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	n = newNode(t, func(c *server.Config) { c.NodeLogs = dir })
	n.want("GET", "/logs/", 200, "app.d/")
	n.want("GET", "/logs/messages", 200, "boot")
	n.want("GET", "/logs/app.d/log", 200, "of an app")
	n.want("GET", "/logs/out", 403, "Forbidden")
	for _, path := range []string{"/logs/out", "/logs/../server.go", "/logs/%2e%2e/server.go", "/logs/app.d%2F..%2F..%2F", "/logs//etc/passwd"} {
		if code, text := n.ask("GET", path); code == 200 || strings.Contains(text, "root:") {
			t.Errorf("%s: %d %q, want another code than 200, and no %q in it", path, code, text, "root:")
		}
	}
}

// Of a directory with more names than fit in memory, the first are listed.
func TestNodeLogsOfAWideDirectory(t *testing.T) {
	dir := t.TempDir()
	for i := range 10_050 {
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("log-%d", i)), nil, 0o600))
	}
	n := newNode(t, func(c *server.Config) { c.NodeLogs = dir })
	if code, text := n.ask("GET", "/logs/"); code != 200 || strings.Count(text, "<a href") != 10_000 {
		t.Errorf("%d with %d names, want %d", code, strings.Count(text, "<a href"), 10_000)
	}
}

func TestCheckpoint(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	n.want("POST", "/checkpoint/default/web/app", 405, "not served")
	n = newNode(t, func(c *server.Config) { c.Checkpoints = "/var/lib/checkpoints" })
	n.run("web", "sleep infinity", isRunning)
	n.want("POST", "/checkpoint/default/web/app?timeout=x", 400, "timeout")
	n.want("POST", "/checkpoint/default/web/app?timeout=7", 200, `{"items":["/var/lib/checkpoints/checkpoint-web_default-app-`)
	req, ok := (<-n.asked).(*runtimeapi.CheckpointContainerRequest)
	if !ok || req.Timeout != 7 || !strings.HasPrefix(req.Location, "/var/lib/checkpoints/checkpoint-web_default-app-"+time.Now().UTC().Format("2006")) {
		t.Errorf("%+v", req)
	}
}

func TestNew(t *testing.T) {
	n := newNode(t, nil)
	for want, config := range map[string]server.Config{
		"Config.Agent is missing":        {},
		"Config.Client is missing":       {Agent: n.agent},
		"one is missing":                 {Agent: n.agent, Client: new(cri.Client), Authorizer: everybody{}},
		"NodeLogs is not an absolute":    {Agent: n.agent, Client: new(cri.Client), NodeLogs: "logs"},
		"Checkpoints is not an absolute": {Agent: n.agent, Client: new(cri.Client), Checkpoints: "x"},
	} {
		if _, err := server.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
