package timeline

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

const hostile = "</script><script>alert(1)</script><!--\u2028'\"&@SCRIPT@@DATA@"

// timelineOf returns a timeline of n pods; the first one has hostile names.
func timelineOf(t *testing.T, n int) *Timeline {
	t.Helper()
	h := New(Config{NodeName: hostile})
	var c nodeagent.Config
	h.Observe(&c)
	for i := range n {
		p := pod(fmt.Sprint("web-", i), "")
		if i == 0 {
			p.Name, p.UID = hostile, types.UID(hostile)
		}
		ref := actions.ContainerRef{Name: "app" + p.Name}
		c.Workers.Observer.PodSeen(p.UID, time.Now())
		c.Sync.Observer.SandboxCreated(p, time.Second, nil)
		c.Sync.Observer.ImagePulled(p, ref, p.Name, 2*time.Second, errors.New(secret))
		c.Sync.Observer.HookEnded(p, ref.Name, syncpod.PreStop, time.Second, nil)
		c.Sync.Observer.ContainerStopped(p, ref.Name, 3*time.Second, nil)
		must.Do(t, c.Sync.Sink.SetPodStatus(t.Context(), p, v1.PodStatus{Phase: v1.PodRunning, Reason: hostile}))
	}
	return h
}

// scripts takes the scripts out of a page.
func scripts(page string) (rest string, all []string) {
	for {
		before, after, ok := strings.Cut(page, "<script")
		if !ok {
			return rest + page, all
		}
		tag, after, _ := strings.Cut(after, ">")
		script, after, _ := strings.Cut(after, "</script>")
		rest += before + "<script" + tag + "></script>"
		all, page = append(all, script), after
	}
}

func TestPage(t *testing.T) {
	var page bytes.Buffer
	h := timelineOf(t, 3)
	must.Do(t, h.writeHTML(&page, h.pods()))
	rest, all := scripts(page.String())
	if len(all) != 2 || strings.Contains(rest, "alert") || strings.Contains(all[1], "alert") {
		t.Fatalf("%d scripts, and beside them\n%s", len(all), rest)
	}
	d := xml.NewDecoder(strings.NewReader(rest))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, outside := range []string{"http:", "https:", " src=", "url(", "import", "@SCRIPT@", "@DATA@"} {
		if strings.Contains(rest, outside) || strings.Contains(all[1], outside) {
			t.Errorf("there is %q in the page", outside)
		}
	}
	var data struct {
		Node string
		Pods []struct {
			N string
			E []struct{ K, N string }
		}
	}
	must.Do(t, json.Unmarshal([]byte(all[0]), &data))
	if data.Node != hostile || len(data.Pods) != 3 || data.Pods[0].N != "default/"+hostile || len(data.Pods[2].E) != 6 {
		t.Errorf("%+v, want node %v, 3 pods, the first %v, and 6 entries of the last", data, hostile, "default/"+hostile)
	}
}

// Names of containers and UIDs of pods are keys in the script, and may be those of members of an object: an object without
// a prototype has none, so a container named "constructor" has its own row.
func TestMapsOfTheScriptHaveNoPrototype(t *testing.T) {
	for _, name := range []string{"at", "hidden", "opened"} {
		if made := name + " = Object.create(null)"; !strings.Contains(pageScript, made) {
			t.Errorf("there is no %q in the script", made)
		}
	}
	if strings.Contains(pageScript, "at = {}") || strings.Contains(pageScript, "opened = {}") || strings.Contains(pageScript, "hidden = {}") {
		t.Error("a map of the script has a prototype")
	}
}

// A trace names each process and thread, and entries of a thread do not overlap.
func TestTrace(t *testing.T) {
	var text bytes.Buffer
	h := timelineOf(t, 3)
	must.Do(t, writeTrace(&text, h.pods()))
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  int64
			Pid, Tid int
			Args     map[string]any
		}
	}
	must.Do(t, json.Unmarshal(text.Bytes(), &trace))
	type line struct{ pid, tid int }
	named, until, count := map[line]bool{}, map[line]int64{}, 0
	for _, e := range trace.TraceEvents {
		at := line{e.Pid, e.Tid}
		switch {
		case e.Ph == "M" && (e.Name == "process_name" || e.Name == "thread_name"):
			named[at] = e.Args["name"] != ""
		case e.Ph == "X":
			count++
			if !named[at] || !named[line{e.Pid, 0}] || e.Name == "" || e.Dur < 0 {
				t.Errorf("%+v, want a name, a named process and thread, and no negative duration", e)
			}
			if e.Ts < until[at] {
				t.Errorf("%+v begins before %d", e, until[at])
			}
			until[at] = e.Ts + e.Dur
		}
	}
	if count != 18 || len(until) < 6 {
		t.Errorf("%d entries in %d lines", count, len(until))
	}
}

func TestServe(t *testing.T) {
	h := timelineOf(t, 3)
	for _, tt := range []struct {
		query, kind string
		code        int
		has, hasNot string
	}{
		{"", "text/html; charset=utf-8", 200, "default/web-1", secret},
		{"?format=html&pod=web-1", "text/html; charset=utf-8", 200, "default/web-1", "default/web-2"},
		{"?format=trace&pod=default/web-2", "application/json", 200, "default/web-2", "default/web-1"},
		{"?pod=web", "text/plain; charset=utf-8", 404, `pod "web" is not known`, "<"},
		{"?pod=other/web-1", "text/plain; charset=utf-8", 404, `pod "other/web-1" is not known`, "<"},
		{"?format=<b>", "text/plain; charset=utf-8", 400, `format "<b>" is not known`, "script"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/timeline"+tt.query, nil))
		body, header := w.Body.String(), w.Header()
		if w.Code != tt.code || header.Get("Content-Type") != tt.kind || !strings.Contains(body, tt.has) || strings.Contains(body, tt.hasNot) {
			t.Errorf("%s: %d %v %.300s, want Code %v and %v and %v in it and no %v in it", tt.query, w.Code, header, body, tt.code, tt.kind, tt.has, tt.hasNot)
		}
		if policy := header.Get("Content-Security-Policy"); strings.HasPrefix(tt.kind, "text/html") != strings.HasPrefix(policy, "default-src 'none'; ") {
			t.Errorf("%s: policy %q, want %v", tt.query, policy, strings.HasPrefix(policy, "default-src 'none'; "))
		}
		if header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v, want %q", tt.query, header, "nosniff")
		}
	}
}

// PodSeen may be reported after the work on the pod has begun.
func TestSeenLate(t *testing.T) {
	h := New(Config{})
	var c nodeagent.Config
	h.Observe(&c)
	p := pod("web", "")
	c.Workers.Observer.SyncStarted(podworkers.Work{UID: p.UID, Pod: p})
	must.Do(t, c.Sync.Sink.SetPodStatus(t.Context(), p, v1.PodStatus{Phase: v1.PodRunning}))
	c.Workers.Observer.PodSeen(p.UID, time.Now())
	c.Workers.Observer.PhaseChanged(p.UID, podworkers.Terminating, podworkers.Finished)
	c.Workers.Observer.PhaseChanged(p.UID, podworkers.Syncing, podworkers.Terminating)
	got := h.pods()[0]
	if len(got.Entries) != 1 || got.Entries[0].Name != "Running" || got.Entries[0].End.IsZero() || !got.Finished {
		t.Errorf("%+v, want a finished pod with one entry, %q, which has ended", got, "Running")
	}
	c.Workers.Observer.PodSeen(p.UID, time.Now())
	if got = h.pods()[0]; got.Finished || len(got.Entries) != 2 || !got.Entries[1].End.IsZero() {
		t.Errorf("once it has come again: %+v", got)
	}
}

// A pod counts as finished even if the next phase is reported before Finished, because two goroutines report them.
func TestFinishedWhenALaterStepArrivesFirst(t *testing.T) {
	h := New(Config{})
	var c nodeagent.Config
	h.Observe(&c)
	p := pod("web", "")
	c.Workers.Observer.PodSeen(p.UID, time.Now())
	c.Workers.Observer.SyncStarted(podworkers.Work{UID: p.UID, Pod: p})
	c.Workers.Observer.PhaseChanged(p.UID, podworkers.Finished, podworkers.Removing)
	c.Workers.Observer.PhaseChanged(p.UID, podworkers.Terminated, podworkers.Finished)
	c.Workers.Observer.PhaseChanged(p.UID, podworkers.Removing, podworkers.Forgotten)
	got := h.pods()[0]
	if last := got.Entries[len(got.Entries)-1]; !got.Finished || last.Name != "Removing" || last.End.IsZero() {
		t.Errorf("%+v, want that it is over and that its removal has ended", got)
	}
}
