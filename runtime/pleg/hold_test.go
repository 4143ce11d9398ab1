package pleg

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/reader"
)

// An event whose cause the newest inspection has shown causes no inspection.
func TestEventOfAKnownStateCausesNoCall(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		n.Exit(id, 1)
		synctest.Wait()
		calls := n.Calls(func() {
			for _, e := range []EventType{EventCreated, EventStarted, EventStopped} {
				w.stream.HandleEvent(Event{PodUID: "u", ContainerID: id, Type: e})
			}
			time.Sleep(time.Second)
		})
		if len(calls) != 0 {
			t.Errorf("calls %v, want none", calls.Counts())
		}
	})
}

func TestShows(t *testing.T) {
	status := &runtime.PodStatus{
		UID: "u", ObservedAt: time.Now(),
		Sandboxes: []runtime.SandboxStatus{{ID: "ready", State: runtime.SandboxReady}, {ID: "stopped", State: runtime.SandboxNotReady}},
		Containers: []runtime.ContainerStatus{
			{ID: runtime.ContainerID{ID: "created"}, State: runtime.ContainerCreated},
			{ID: runtime.ContainerID{ID: "running"}, State: runtime.ContainerRunning},
			{ID: runtime.ContainerID{ID: "exited"}, State: runtime.ContainerExited},
			{ID: runtime.ContainerID{ID: "unknown"}, State: runtime.ContainerUnknown},
		},
	}
	want := map[string]string{
		"created": "created", "running": "created started", "exited": "created started stopped", "unknown": "created",
		"ready": "created started", "stopped": "created started stopped", "other": "deleted",
	}
	for id, shown := range want {
		var got []any
		for _, e := range []EventType{EventCreated, EventStarted, EventStopped, EventDeleted} {
			if shows(status, Event{ContainerID: id, Type: e}) {
				got = append(got, e)
			}
		}
		if text := fmt.Sprint(got...); text != shown {
			t.Errorf("%s: shows %q, want %q", id, text, shown)
		}
	}
	if shows(nil, Event{ContainerID: "created"}) {
		t.Error("no status shows an event")
	}
}

// Events during the work on a pod cause an inspection immediately after the work, or
// after a second if Release is not called.
func TestEventsWaitForTheEndOfTheWork(t *testing.T) {
	for _, tt := range []struct {
		name   string
		worked bool
		within time.Duration
	}{
		{"ends", true, 100 * time.Millisecond},
		{"goes on", false, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				id := n.pod("u")
				w := n.settled()
				w.Hold("u")
				calls := n.Calls(func() {
					n.Exit(id, 1)
					n.Start("u", "app", 1, "sleep infinity")
					time.Sleep(100*time.Millisecond - 1)
					if got := w.heard(); len(got) != 0 {
						t.Errorf("reported %v while a worker syncs the pod", got)
					}
					if tt.worked {
						w.Release("u", false)
					}
					time.Sleep(tt.within)
				})
				if got := w.heardOf("u"); len(got) != 1 || got[0] != "sandbox ready, app/1 running 0, app/0 exited 1" {
					t.Errorf("reported %q, want only %q", got, "sandbox ready, app/1 running 0, app/0 exited 1")
				}
				if got := calls.Count(critest.ListContainers); got != 1 {
					t.Errorf("%d looks, want one", got)
				}
			})
		})
	}
}

// The end of the work on a pod causes an inspection if the work has changed something, or if an event has arrived whose
// cause was not observed.
func TestReleaseInspectsIfNeeded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		holds   int
		event   bool
		late    bool // Release is called after the second for which the event waits
		changed bool
		looks   int
	}{
		{"nothing happened", 1, false, false, false, 0},
		{"something was changed", 1, false, false, true, 1},
		{"an event came", 1, true, false, false, 1},
		{"an event was looked after", 1, true, true, false, 0},
		{"another worker continues", 2, true, false, false, 0},
		{"no worker had synced", 0, false, false, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				id := n.pod("u")
				w := n.run()
				time.Sleep(2 * time.Second)
				for range tt.holds {
					w.Hold("u")
				}
				if tt.event {
					n.Exit(id, 1)
				}
				if tt.late {
					time.Sleep(maxHold)
				}
				synctest.Wait()
				calls := n.Calls(func() {
					w.Release("u", tt.changed)
					w.Release("unheard of", true)
					synctest.Wait()
				})
				if got := calls.Count(critest.ListContainers); got != tt.looks {
					t.Errorf("%d looks, want %d", got, tt.looks)
				}
			})
		})
	}
}

func TestW11_NothingIsLeftOfAHold(t *testing.T) {
	w := must.Get(New(Config{Reader: &reader.Reader{}}))(t)
	w.Hold("u")
	w.Release("u", false)
	if len(w.pods) != 0 {
		t.Error("a pod is left")
	}
}

// An event delays the next inspection of a pod with work in progress by at most a second, and
// does not delay one that is due sooner.
func TestHoldBoundsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for due, want := range map[time.Duration]time.Duration{0: maxHold, maxHold / 2: maxHold / 2, 5 * maxHold: maxHold} {
			w := must.Get(New(Config{Reader: &reader.Reader{}}))(t)
			p := w.pod("u")
			if due > 0 {
				p.retryAt = time.Now().Add(due)
			}
			w.hold(p)
			if got := time.Until(p.retryAt); got != want {
				t.Errorf("due in %v, and %v after an event", due, got)
			}
		}
	})
}

// Neither a list that began before an event answers it, nor an inspection that
// shows another event.
func TestP3_EventAfterAListIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := must.Get(New(Config{Reader: &reader.Reader{}}))(t)
		event := Event{PodUID: "u", ContainerID: "c", Type: EventStopped}
		listed := &reader.ListedPod{UID: "u", ObservedAt: time.Now()}
		time.Sleep(time.Second)
		s := &stream{w: w}

		p := w.pod("u")
		w.requestListed(p, listed)
		s.HandleEvent(event)
		if p.next.listed != nil {
			t.Error("the list is taken for an answer")
		}
		w.requestListed(p, listed)
		if p.next.listed != nil {
			t.Error("the list is taken for an answer when it is there")
		}

		w.Hold("v")
		p, event.PodUID = w.pod("v"), "v"
		w.requestListed(p, listed)
		s.HandleEvent(event)
		w.gate = gateOpen
		w.begin(p)
		if !p.missedEvent || p.retryAt.IsZero() {
			t.Error("a look at what an old list has shown is taken for an answer")
		}

		p, event.PodUID = w.pod("x"), "x"
		p.latest = &runtime.PodStatus{ObservedAt: time.Now(), Containers: []runtime.ContainerStatus{{ID: runtime.ContainerID{ID: "known"}, State: runtime.ContainerExited}}}
		p.now, p.wakeup = &inspection{}, make(chan struct{}, 1)
		s.HandleEvent(event)
		event.ContainerID = "known"
		s.HandleEvent(event)
		p.now = nil
		if w.recheckEvents(p); p.next == nil {
			t.Error("the first of two events is lost")
		}
	})
}

// Events during an inspection cause another one, unless the
// inspection has shown their causes.
func TestEventDuringALook(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slow  critest.Method
		after time.Duration
		looks int
	}{
		{"shown", critest.ListPodSandbox, 5 * time.Millisecond, 1},
		{"not shown", critest.ContainerStatus, 25 * time.Millisecond, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				id := n.pod("u")
				other, third := n.Start("u", "other", 0, "sleep infinity"), n.Start("u", "third", 0, "sleep infinity")
				w := n.settled()
				n.Fault(faults.Fault{Match: faults.Match{Method: tt.slow}, Delay: 50 * time.Millisecond})
				calls := n.Calls(func() {
					n.Exit(id, 1)
					time.Sleep(tt.after)
					n.Exit(other, 2)
					n.Exit(third, 3)
					time.Sleep(time.Second)
				})
				if got := calls.Count(critest.ListContainers); got != tt.looks {
					t.Errorf("%d looks, want %d", got, tt.looks)
				}
				got := w.heardOf("u")
				if want := "sandbox ready, third/0 exited 3, other/0 exited 2, app/0 exited 1"; len(got) == 0 || got[len(got)-1] != want {
					t.Errorf("reported %q, want %q in the end", got, want)
				}
			})
		})
	}
}

// A pod that an event has shown is in Pods from the next list on. It is then reported again, because the receiver of the
// first report did not find it in Pods.
func TestW6_ListIsReportedAfterAnEventOfTheSamePod(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		w := n.run()
		time.Sleep(time.Minute)
		n.pod("u")
		time.Sleep(10 * time.Second)
		if len(w.heardOf("u")) == 0 || len(w.Pods()) != 0 {
			t.Fatalf("the event is not reported, or %d pods are listed before it, want 0", len(w.Pods()))
		}
		time.Sleep(w.config.EventRelist)
		if got := w.heardOf("u"); len(got) != 1 || len(w.Pods()) != 1 {
			t.Errorf("reported %q with %d pods, want one report and one pod", got, len(w.Pods()))
		}
		time.Sleep(2 * w.config.EventRelist)
		if got := w.heardOf("u"); len(got) != 0 {
			t.Errorf("later lists reported %q, want nothing", got)
		}
	})
}

// A bare event has only a container ID. Its pod is found even if the pod has another container in the meantime, or is
// new.
func TestF9_BareEventsFindTheirPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := must.Get(New(Config{Reader: &reader.Reader{}}))(t)
		has := func(uid types.UID, ids ...string) {
			status := &runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{{ID: "s" + string(uid)}}}
			for _, id := range ids {
				status.Containers = append(status.Containers, runtime.ContainerStatus{ID: runtime.ContainerID{ID: id}})
			}
			w.setLatest(w.pod(uid), status)
		}
		has("a", "a0")
		if p := w.ownerOf("a0"); p != w.pods["a"] {
			t.Errorf("a0 is of %v, want %v", p, w.pods["a"])
		}
		has("a", "a1")
		has("b", "b0")
		for id, want := range map[string]types.UID{"a1": "a", "sa": "a", "b0": "b", "sb": "b"} {
			if p := w.ownerOf(id); p == nil || p.uid != want {
				t.Errorf("%s is of %v, want pod %s", id, p, want)
			}
		}
		w.setLatest(w.pods["b"], nil)
		for _, gone := range []string{"a0", "b0", "sb", ""} {
			if p := w.ownerOf(gone); p != nil {
				t.Errorf("%q is of %v, want no pod", gone, p)
			}
		}
		if len(w.owners) != 2 {
			t.Errorf("%d IDs are held, want those of a", len(w.owners))
		}
	})
}

// A bare event costs the same however many pods there are.
func BenchmarkBareEvent(b *testing.B) {
	for _, pods := range []int{100, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			w := must.Get(New(Config{Reader: &reader.Reader{}}))(b)
			for i := range pods {
				id := fmt.Sprint(i)
				w.setLatest(w.pod(types.UID(id)), &runtime.PodStatus{Containers: []runtime.ContainerStatus{{ID: runtime.ContainerID{ID: id}}}})
			}
			for i := 0; b.Loop(); i++ {
				if w.ownerOf(fmt.Sprint(i%pods)) == nil {
					b.Fatal("no pod is found")
				}
			}
		})
	}
}

// It is reported regardless of the pod's state: an earlier inspection is
// in flight, another one is requested, or the pod has no address.
func TestW6_ListIsReportedDespiteNewerEvents(t *testing.T) {
	for _, tt := range []struct {
		name   string
		known  func(*runtime.PodStatus)
		before func(w *Watcher, p *pod)
		after  func(w *Watcher, p *pod, older *runtime.PodStatus)
	}{
		{name: "nothing else"},
		{
			name:   "a look is in flight",
			before: func(w *Watcher, p *pod) { w.request(p); w.begin(p) },
			after:  func(w *Watcher, p *pod, older *runtime.PodStatus) { w.finish(p, p.now, older, nil) },
		},
		{
			name:   "a look is asked for",
			before: func(w *Watcher, p *pod) { w.request(p) },
			after: func(w *Watcher, p *pod, _ *runtime.PodStatus) {
				l, status := w.begin(p)
				w.finish(p, l, status, nil)
			},
		},
		{name: "it has no address", known: func(s *runtime.PodStatus) { s.Sandboxes[0].Network = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				n.pod("u")
				w, err := New(Config{Reader: n.Reader()})
				n.Must(err)
				w.gate = gateOpen
				p := w.pod("u")
				p.wakeup = make(chan struct{}, 1) // the test does the work of its goroutine
				event, _ := w.begin(p)
				status, err := w.config.Reader.PodStatus(t.Context(), "u", nil)
				n.Must(err)
				if tt.known != nil {
					tt.known(status)
				}
				w.finish(p, event, status, nil)
				w.report(p)
				time.Sleep(time.Minute)
				if tt.before != nil {
					tt.before(w, p)
				}
				older := *status
				older.ObservedAt = time.Now()
				time.Sleep(time.Millisecond)
				began := time.Now()
				listed, err := w.config.Reader.List(t.Context())
				n.Must(err)
				w.listed(listed, began, false)
				if tt.after != nil {
					tt.after(w, p, &older)
				}
				if !p.unreported || len(w.Pods()) != 1 {
					t.Errorf("unreported is %v with %d pods, want true and one pod", p.unreported, len(w.Pods()))
				}
			})
		})
	}
}
