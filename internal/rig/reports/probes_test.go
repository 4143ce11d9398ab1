//go:build linux

package reports

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// Answers to HTTP probes, and whether they count as success.
func TestAnswersToHTTPProbes(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		ready   bool
		warning string
	}{
		"host of a header after a redirect": {func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Host != "app.example.com":
				w.WriteHeader(http.StatusBadRequest)
			case r.URL.Path == "/":
				http.Redirect(w, r, "/admin/", http.StatusMovedPermanently)
			}
		}, true, ""},
		"303 without a place": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusSeeOther) }, true, ""},
		"304":                 {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotModified) }, true, ""},
		"204":                 {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }, true, ""},
		"400":                 {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadRequest) }, false, ""},
		"redirect to another host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example.com/", http.StatusFound)
		}, true, "ProbeWarning"},
		"large answer": {func(w http.ResponseWriter, r *http.Request) {
			for range 1 << 10 {
				fmt.Fprint(w, strings.Repeat("x", 1<<10))
			}
		}, true, ""},
		"user agent": {func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.UserAgent(), "kube-probe/") || r.Header.Get("Accept") != "*/*" {
				w.WriteHeader(http.StatusForbidden)
			}
		}, true, ""},
		"keep-alive": {func(w http.ResponseWriter, r *http.Request) {
			if !r.Close {
				w.WriteHeader(http.StatusForbidden)
			}
		}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{Programs: map[string]critest.Program{"web": serve(test.handler)}}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [web],
  readinessProbe: {httpGet: {path: /, port: 8080, httpHeaders: [{name: Host, value: app.example.com}]}, periodSeconds: 1}}]}}`)
				time.Sleep(time.Minute)
				n.want(n.of("a", "app").Ready, test.ready, "ready")
				if test.warning != "" {
					n.want(len(n.told(test.warning)) > 0, true, test.warning)
				}
			})
		})
	}
}

// The path of a probe keeps its query, and a port may be named.
func TestPathOfAProbe(t *testing.T) {
	var got atomic.Value
	web := serve(func(w http.ResponseWriter, r *http.Request) { got.Store(r.URL.String()) })
	on(t, critest.Config{Programs: map[string]critest.Program{"web": web}}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [web], ports: [{name: http, containerPort: 8080}],
  readinessProbe: {httpGet: {path: "health?full=1&x=%2F", port: http}, periodSeconds: 1}}]}}`)
		time.Sleep(10 * time.Second)
		n.want(got.Load(), any("/health?full=1&x=%2F"), "URL")
		n.want(n.of("a", "app").Ready, true, "ready")
	})
}

func TestUnreadyContainerIsNotRestarted(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], readinessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 1}}]}}`)
		time.Sleep(time.Hour)
		n.want(len(n.runs("app")), 1, "runs")
		n.want(n.condition("a", v1.PodReady).Status, v1.ConditionFalse, "Ready")
	})
}

// A ready container stays ready over a restart of the agent, however long its probes take.
func TestReadinessOverARestart(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server],
  startupProbe: {exec: {command: [sleep, "10"]}, initialDelaySeconds: 6, timeoutSeconds: 15, periodSeconds: 60},
  readinessProbe: {exec: {command: [sleep, "5"]}, timeoutSeconds: 10, initialDelaySeconds: 30, periodSeconds: 60}}]}}`)
		time.Sleep(10 * time.Minute)
		n.want(n.of("a", "app").Ready, true, "ready")
		before := len(n.past("a"))
		n.restart(30 * time.Second)
		time.Sleep(10 * time.Minute)
		for _, s := range n.past("a")[before:] {
			n.want(condition(s, v1.PodReady).Status, v1.ConditionTrue, "Ready after the restart")
			n.want(*s.ContainerStatuses[0].Started, true, "started after the restart")
		}
	})
}

// The next instance of a container is not ready before its own probe has succeeded.
func TestReadinessOfTheNextInstance(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 5; touch /ready; sleep 60; exit 1"], readinessProbe: {exec: {command: [test, -e, /ready]}, periodSeconds: 2}}]}}`)
		time.Sleep(10 * time.Minute)
		starts := map[string]time.Time{}
		for _, p := range n.runs("app") {
			starts["critest://"+p.ContainerID] = p.Started
		}
		ready := 0
		for _, s := range n.past("a") {
			c := s.ContainerStatuses[0]
			if c.Ready {
				ready++
				if since := condition(s, v1.PodReady).LastTransitionTime.Sub(starts[c.ContainerID]); since < 4*time.Second {
					n.Errorf("instance %s is ready after %v", c.ContainerID, since)
				}
			}
		}
		n.want(ready > 2, true, "it was ready several times")
	})
}

// A container that is in back-off is not ready.
func TestBackOffIsNotReady(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 3; exit 1"]}, {name: other, command: [server]}]}}`)
		time.Sleep(10 * time.Minute)
		for _, s := range n.past("a") {
			for _, c := range s.ContainerStatuses {
				if c.State.Running == nil && (c.Ready || c.Started != nil && *c.Started) {
					n.Errorf("%s is ready or started without running: %+v", c.Name, c)
				}
			}
			all := true
			for _, c := range s.ContainerStatuses {
				all = all && c.Ready
			}
			n.want(condition(s, v1.ContainersReady).Status == v1.ConditionTrue, all, "ContainersReady")
			n.want(condition(s, v1.PodReady).Status, condition(s, v1.ContainersReady).Status, "Ready without gates")
		}
	})
}

// The own grace period of a liveness probe counts for its kills, and not for the deletion of the pod.
func TestGracePeriodOfAProbe(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 3600, containers: [{name: app, command: [sh, -c, "touch /live; trap '' TERM; sleep infinity"],
  livenessProbe: {exec: {command: [test, -e, /live]}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 1, terminationGracePeriodSeconds: 10}}]}}`)
		time.Sleep(time.Minute) // the first probe waits a second, because touch may take as long as a probe
		exec(n, "app", "rm", "/live")
		begun := time.Now()
		time.Sleep(time.Minute)
		took := n.runs("app")[0].Ended.Sub(begun)
		n.want(took >= 10*time.Second && took <= 13*time.Second, true, fmt.Sprint("killed after ", took))
		begun = time.Now()
		n.delete(pod, 40)
		time.Sleep(2 * time.Minute)
		runs := n.runs("app")
		took = runs[len(runs)-1].Ended.Sub(begun)
		n.want(took, 40*time.Second, "time of the deletion")
	})
}

// A container in its startup period stays unready and not started over restarts of the agent, and its liveness is not probed.
func TestStartupPeriodOverARestart(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], startupProbe: {exec: {command: ["false"]}, periodSeconds: 10, failureThreshold: 100}, livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 1}}]}}`)
		for range 5 {
			time.Sleep(30 * time.Second)
			n.restart(time.Second)
		}
		time.Sleep(time.Minute)
		for _, s := range n.past("a") {
			if len(s.ContainerStatuses) > 0 && (*s.ContainerStatuses[0].Started || s.ContainerStatuses[0].Ready) {
				n.Errorf("it is started or ready: %+v", s)
			}
		}
		n.want(len(n.runs("app")), 1, "runs")
	})
}

// The grace period of a startup probe counts for a sidecar, too.
func TestGracePeriodOfAStartupProbe(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 300, initContainers: [{name: side, restartPolicy: Always, command: [sh, -c, "trap '' TERM; sleep infinity"], startupProbe: {exec: {command: ["false"]}, periodSeconds: 5, failureThreshold: 1, terminationGracePeriodSeconds: 1}}], containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		p := n.runs("side")[0]
		took := p.Ended.Sub(p.Started)
		n.want(took > 0 && took <= 10*time.Second, true, fmt.Sprint("killed after ", took))
	})
}
