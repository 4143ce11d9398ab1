package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/page"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/timeline"
)

// An agent that does nothing has pods.
type fakeAgent struct {
	pods        []loop.Pod
	health      loop.Health
	explanation string
	took        time.Duration // by each call
	calls       int
}

func (a *fakeAgent) Pods() []loop.Pod {
	a.calls++
	time.Sleep(a.took)
	return a.pods
}

func (a *fakeAgent) Health() loop.Health { return a.health }

func (a *fakeAgent) Explain(types.UID) string { return a.explanation }

func (a *fakeAgent) name(i int) string { return a.pods[i].Pod.Name }

// add adds a pod with one container.
func (a *fakeAgent) add(name, image string, state v1.ContainerState, restarts int32) *v1.Pod {
	running, started := state.Running != nil, metav1.NewTime(time.Now().Add(-10*time.Minute))
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(fmt.Sprint("uid-", len(a.pods)))},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: image}}},
	}
	c := v1.ContainerStatus{Name: "app", State: state, Ready: running, Started: &running, RestartCount: restarts}
	if restarts > 0 {
		c.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.NewTime(time.Now().Add(-40 * time.Second))}
	}
	status := v1.PodStatus{Phase: v1.PodRunning, StartTime: &started, ContainerStatuses: []v1.ContainerStatus{c}, PodIP: "10.88.0.7"}
	if state.Terminated != nil {
		status.Phase = v1.PodSucceeded
	}
	a.pods = append(a.pods, loop.Pod{Pod: pod, Phase: podworkers.Syncing, Status: status})
	return pod
}

func runs() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-9 * time.Minute))}}
}

func waits(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// observed returns an agent with n pods, and a page that has observed it.
func observed(n int) (*page.Page, *fakeAgent) {
	history := timeline.New(timeline.Config{NodeName: "edge"})
	view := page.New(page.Config{NodeName: "edge", Timeline: history})
	var c agent.Config
	history.Observe(&c)
	view.Observe(&c)
	a := &fakeAgent{explanation: "State: syncing.\nContainer \"app\" starts again in 20 s: CrashLoopBackOff.\n"}
	event := func(pod *v1.Pod, kind, reason, message string) {
		c.Sync.Events.Eventf(&v1.ObjectReference{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, FieldPath: "spec.containers{app}"}, kind, reason, "%s", message)
	}
	if n > 0 {
		pod := a.add("backup-edge", "registry.example/backup:7", v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed"}}, 0)
		event(pod, "Normal", "Started", "Started container app")
		pod = a.add("crashing-edge", "registry.example/worker:3.2", waits("CrashLoopBackOff", "back-off 40s restarting failed container=app pod=crashing-edge_default(uid-1)"), 3)
		event(pod, "Normal", "Pulled", "Successfully pulled image")
		for range 3 {
			event(pod, "Warning", "BackOff", "Back-off restarting failed container app in pod crashing-edge_default(uid-1)")
		}
		pod = a.add("web-edge", "registry.example/web:1.27", runs(), 0)
		event(pod, "Normal", "Pulled", "Successfully pulled image")
		event(pod, "Normal", "Started", "Started container app")
	}
	for i := len(a.pods); i < n; i++ {
		a.add(fmt.Sprintf("pod-%03d-edge", i), "registry.example/web:1.27", runs(), 0)
	}
	for _, p := range a.pods {
		_ = c.Sync.Sink.SetPodStatus(context.Background(), p.Pod, p.Status) // a timeline accepts all
	}
	return view, a
}

// hostile returns an agent with n pods whose names, images, events and manifests are scripts.
func hostile(t *testing.T, n int) (*page.Page, *fakeAgent) {
	t.Helper()
	history := timeline.New(timeline.Config{NodeName: "edge"})
	view := page.New(page.Config{NodeName: "</title><script>pwned=1</script>", Timeline: history})
	var c agent.Config
	history.Observe(&c)
	view.Observe(&c)
	a := &fakeAgent{explanation: "<img src=x onerror=pwned=1>\n</div><script>pwned=1</script>"}
	errs := []error{}
	for i := range n {
		text := []string{
			"<script>pwned=%d</script>", "<img src=x onerror=pwned=%d>", "</script><script>pwned=%d</script>", "\"><svg onload=pwned=%d>", "'-pwned=%d-'",
			"javascript:pwned=%d", "<iframe srcdoc='<script>parent.pwned=%d</script>'>", "{{constructor.constructor('pwned=%d')()}}", "__proto__%d", "\u202e<b onmouseover=pwned=%d>",
		}[i%10]
		text = fmt.Sprintf(text, i)
		pod := a.add(text, text, waits(text, text), 1)
		pod.Spec.Containers[0].Name, a.pods[i].Status.ContainerStatuses[0].Name = text, text
		if i%10 == 8 {
			pod.UID = "__proto__"
			if i > 8 {
				pod.UID = types.UID(fmt.Sprint("constructor", i))
			}
		}
		c.Sync.Events.Eventf(&v1.ObjectReference{UID: pod.UID, Namespace: text, Name: text, FieldPath: "spec.containers{" + text + "}"}, "Warning", text, "%s", text)
		must.Do(t, c.Sync.Sink.SetPodStatus(t.Context(), pod, a.pods[i].Status))
		errs = append(errs, &source.ManifestError{File: "/etc/pods/" + text, Document: 1, Err: errors.New(text)})
	}
	a.health.Sources = []loop.SourceHealth{{Name: "file", Errors: errs}}
	return view, a
}

func get(h http.Handler, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+target, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Only a browser of the machine that shows the page itself is served, and nothing but reads.
func TestForeignRequestsAreRejected(t *testing.T) {
	view, a := observed(3)
	h := view.Handler(a)
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, tt := range []struct {
		name, path string
		change     func(*http.Request)
		code       int
	}{
		{"the page", "/", nil, 200},
		{"localhost", "/state", host("localhost:8080"), 200},
		{"IPv6", "/state", host("[::1]:8080"), 200},
		{"DNS rebinding", "/state", host("evil.example:8080"), 421},
		{"a name that begins like an address", "/state", host("127.0.0.1.evil.example"), 421},
		{"an address of a network", "/state", host("192.0.2.1:8080"), 421},
		{"no host", "/state", host(""), 421},
		{"its own script", "/state", header("Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"), 200},
		{"the script of another site", "/state", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"), 403},
		{"another port of the machine", "/state", header("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"), 403},
		{"a frame of another site", "/", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"), 403},
		{"a link of another site", "/", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 200},
		{"another origin", "/state", header("Origin", "http://evil.example"), 403},
		{"an opaque origin", "/state", header("Origin", "null"), 403},
		{"its own origin", "/state", header("Origin", "http://127.0.0.1:8080"), 200},
		{"a write", "/state", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		{"no such pod", "/pod?uid=x", nil, 404},
		{"no metrics", "/metrics", nil, 404},
	} {
		w := get(h, tt.path, tt.change)
		if w.Code != tt.code {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.code)
		}
		if p := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; connect-src 'self'; ") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: policy %q", tt.name, p)
		}
		if tt.code >= 400 && strings.Contains(w.Body.String(), "web-edge") {
			t.Errorf("%s: the rejection has the pods: %s", tt.name, w.Body)
		}
	}
}

func TestServeRejectsOtherAddresses(t *testing.T) {
	l := must.Get(net.Listen("tcp", ":0"))(t)
	if err := page.Serve(t.Context(), l, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), "is no loopback address") {
		t.Errorf("served on %v: %v", l.Addr(), err)
	}
}

// Viewers share an answer for a second. After a computation the page rests, so a thousand requests cost a twentieth of the
// time.
func TestViewersAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view, a := observed(500)
		a.took = 10 * time.Millisecond
		h := view.Handler(a)
		first := get(h, "/state", nil)
		same := get(h, "/state", func(r *http.Request) { r.Header.Set("If-None-Match", first.Header().Get("ETag")) })
		if first.Code != 200 || same.Code != 304 || same.Body.Len() > 0 || a.calls != 1 {
			t.Errorf("%d, then %d with %d bytes, after %d computations", first.Code, same.Code, same.Body.Len(), a.calls)
		}
		began, before := time.Now(), a.calls
		for range 100 {
			if w := get(h, "/pod?uid=uid-1", nil); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		spent := time.Duration(a.calls-before) * a.took
		if took := time.Since(began); took < 20*spent {
			t.Errorf("%v of work in %v", spent, took)
		}
		time.Sleep(time.Minute) // timers end in the bubble
	})
}

// Events that repeat count, and those of one pod do not displace those of others.
func TestEventsAreBounded(t *testing.T) {
	view := page.New(page.Config{})
	var c agent.Config
	view.Observe(&c)
	a := &fakeAgent{}
	quiet, loud := a.add("quiet", "app:1", runs(), 0), a.add("loud", "app:1", runs(), 0)
	event := func(pod *v1.Pod, message string) {
		c.Sync.Events.Eventf(&v1.ObjectReference{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}, "Warning", "Failed", "%s", message)
	}
	event(quiet, "once")
	for i := range 10_000 {
		event(loud, fmt.Sprint(i%100, strings.Repeat("x", 1<<20*(i/9999))))
	}
	event(quiet, "once")
	var state struct {
		Events []struct {
			N, M string
			X    int
		}
	}
	w := get(view.Handler(a), "/state", nil)
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &state))
	if len(state.Events) != 26 || state.Events[0].N != "quiet" || state.Events[0].X != 2 || w.Body.Len() > 20_000 {
		t.Errorf("%d events in %d bytes, the first %+v; want 25 of loud, and the one of quiet with 2 occurrences first", len(state.Events), w.Body.Len(), state.Events[0])
	}
}
