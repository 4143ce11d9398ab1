package timeline

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/probe"
)

// errBroken has what must not be shown.
var errBroken = errors.New(secret)

func entries(h *Timeline) (n int) {
	for _, p := range h.pods() {
		n += len(p.Entries)
	}
	return n
}

// A pod keeps its newest entries, and its unfinished ones.
func TestBoundOfAPod(t *testing.T) {
	h := New(Config{})
	h.maxPodEntries = 10
	var c nodeagent.Config
	h.Observe(&c)
	p := pod("web", "")
	if err := c.Sync.Sink.SetPodStatus(t.Context(), p, v1.PodStatus{Phase: v1.PodRunning}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		c.Sync.Observer.ImagePulled(p, actions.ContainerRef{Name: "app"}, fmt.Sprint("image-", i, strings.Repeat("ä", 500)), 0, nil)
	}
	got := h.pods()[0]
	if len(got.Entries) != 10 || got.Dropped != 991 {
		t.Errorf("%d entries, %d dropped", len(got.Entries), got.Dropped)
	}
	names := map[string]bool{}
	for _, e := range got.Entries {
		name, _, _ := strings.Cut(e.Name, "ä")
		names[name] = true
		if len(e.Name) > 200 || strings.ToValidUTF8(e.Name, "?") != e.Name {
			t.Errorf("%d bytes: %q, want at most 200 and %v", len(e.Name), e.Name, e.Name)
		}
	}
	if !names["Running"] || !names["image-999"] || !names["image-991"] {
		t.Errorf("%v", names)
	}
}

// Repeated failures are one entry.
func TestRepetitions(t *testing.T) {
	h := New(Config{})
	var c nodeagent.Config
	h.Observe(&c)
	p := pod("web", "")
	for range 1000 {
		c.Sync.Observer.SandboxCreated(p, 0, errBroken)
		c.Workers.Observer.SyncEnded(podworkers.Work{UID: p.UID, Pod: p}, 0, errBroken)
		c.ProbeObserver.Checked(probe.Check{Pod: p, Container: "app", Kind: probe.Readiness, Outcome: actions.ProbeFailure})
	}
	c.ProbeObserver.Checked(probe.Check{Pod: p, Container: "app", Kind: probe.Readiness, Outcome: actions.ProbeUnknown})
	for _, e := range h.pods()[0].Entries {
		if e.Count != 1000 || !e.Failed || e.Kind == kindProbe && !e.End.IsZero() {
			t.Errorf("%+v, want 1000 failures, and no end of a probe", e)
		}
	}
	c.ProbeObserver.Checked(probe.Check{Pod: p, Container: "app", Kind: probe.Readiness, Outcome: actions.ProbeSuccess})
	for _, e := range h.pods()[0].Entries {
		if e.Kind == kindProbe && e.End.IsZero() {
			t.Errorf("%+v, want an end", e)
		}
	}
	if n := entries(h); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}

// Finished pods are dropped first, the oldest before others.
func TestBoundOfAll(t *testing.T) {
	h := New(Config{})
	h.maxEntries = 100
	var c nodeagent.Config
	h.Observe(&c)
	live := func(i int) *v1.Pod {
		p := pod(fmt.Sprint("live-", i), "")
		p.UID = types.UID(p.Name)
		return p
	}
	for i := range 10 {
		for range 3 {
			c.Sync.Observer.SandboxCreated(live(i), 0, nil)
		}
	}
	for i := range 500 {
		p := pod(fmt.Sprint("job-", i), "")
		c.Workers.Observer.PodSeen(p.UID, time.Now())
		c.Sync.Observer.SandboxCreated(p, 0, nil)
		c.Workers.Observer.PhaseChanged(p.UID, podworkers.Syncing, podworkers.Finished)
	}
	pods := h.pods()
	if entries(h) != 100 || len(pods) != 45 || pods[0].UID != "uid-of-job-465" {
		t.Errorf("%d entries of %d pods, the first is %s", entries(h), len(pods), pods[0].UID)
	}
	for i := range 40 {
		for range 10 {
			c.Sync.Observer.SandboxCreated(live(i), 0, nil)
		}
	}
	if n := entries(h); n > 100 {
		t.Errorf("%d entries, want at most 100", n)
	}
	for _, p := range h.pods() {
		if p.Finished {
			t.Errorf("%s is still there", p.UID)
		}
	}
}

func TestConcurrently(t *testing.T) {
	h := New(Config{})
	h.maxEntries = 50
	var c nodeagent.Config
	h.Observe(&c)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			p := pod(fmt.Sprint("web-", i), "")
			for range 200 {
				c.Workers.Observer.PodSeen(p.UID, time.Now())
				c.Sync.Observer.ContainerStarted(p, actions.ContainerRef{Name: "app"}, time.Second, nil)
				c.Workers.Observer.PhaseChanged(p.UID, podworkers.Syncing, podworkers.Finished)
				if n := entries(h); n > 50 {
					t.Errorf("%d entries, want at most 50", n)
				}
			}
		})
	}
	group.Wait()
}
