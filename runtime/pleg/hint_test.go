package pleg

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// An event of what the newest look has shown already costs nothing.
func TestEventOfWhatIsKnownCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, critest.Config{})
		id := n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		n.exit(id, 1)
		synctest.Wait()
		calls := n.calls(func() {
			for _, e := range []cri.EventType{cri.EventCreated, cri.EventStarted, cri.EventStopped} {
				w.stream.HandleEvent(cri.Event{PodUID: "u", ContainerID: id, Type: e})
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
		"ready": "created started", "stopped": "created started stopped", "other": "",
	}
	for id, shown := range want {
		var got []any
		for _, e := range []cri.EventType{cri.EventCreated, cri.EventStarted, cri.EventStopped, cri.EventDeleted} {
			if shows(status, cri.Event{ContainerID: id, Type: e}) {
				got = append(got, e)
			}
		}
		if text := fmt.Sprint(got...); text != shown {
			t.Errorf("%s: shows %q, want %q", id, text, shown)
		}
	}
	if shows(nil, cri.Event{ContainerID: "created"}) {
		t.Error("no status shows an event")
	}
}

// What events say of a pod while it is worked on is looked at when that is over, at
// once, or after a second if nobody says that it is.
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
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, critest.Config{})
				id := n.pod("u")
				w := n.run()
				time.Sleep(2 * time.Second)
				w.heard()
				w.Hold("u")
				calls := n.calls(func() {
					n.exit(id, 1)
					n.start("u", "app", 1, "sleep infinity")
					time.Sleep(100*time.Millisecond - 1)
					if got := w.heard(); len(got) != 0 {
						t.Errorf("told %v while the pod is worked on", got)
					}
					if tt.worked {
						w.Release("u", false)
					}
					time.Sleep(tt.within)
				})
				if got := w.heardOf("u"); len(got) != 1 || got[0] != "sandbox ready, app/1 running 0, app/0 exited 1" {
					t.Errorf("told %q", got)
				}
				if got := calls.Count(critest.ListContainers); got != 1 {
					t.Errorf("%d looks, want one", got)
				}
			})
		})
	}
}

// An event that comes while a look is in flight has another one follow, unless the
// look has shown it.
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
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, critest.Config{})
				id := n.pod("u")
				other := n.start("u", "other", 0, "sleep infinity")
				w := n.run()
				time.Sleep(2 * time.Second)
				w.heard()
				n.inject(critest.Fault{Match: critest.Match{Method: tt.slow}, Delay: 50 * time.Millisecond})
				calls := n.calls(func() {
					n.exit(id, 1)
					time.Sleep(tt.after)
					n.exit(other, 2)
					time.Sleep(time.Second)
				})
				if got := calls.Count(critest.ListContainers); got != tt.looks {
					t.Errorf("%d looks, want %d", got, tt.looks)
				}
				got := w.heardOf("u")
				if want := "sandbox ready, other/0 exited 2, app/0 exited 1"; len(got) == 0 || got[len(got)-1] != want {
					t.Errorf("told %q, want %q in the end", got, want)
				}
			})
		})
	}
}
