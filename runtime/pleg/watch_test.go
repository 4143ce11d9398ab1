package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/reader"
)

func TestChangesAreReported(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		w := n.run(changes...)
		time.Sleep(time.Minute)
		step := func(do func(), want string) {
			t.Helper()
			do()
			time.Sleep(15 * time.Second)
			got := w.heardOf("u")
			if len(got) == 0 || got[len(got)-1] != want {
				t.Errorf("reported %q, want %q in the end", got, want)
			}
			if s, err := w.cache.Get("u"); err != nil || states(s) != want {
				t.Errorf("cache: %q, %v, want %q", states(s), err, want)
			}
		}
		var id string
		step(func() { n.RunSandbox("u") }, "sandbox ready")
		step(func() { id = n.Start("u", "app", 0, "sleep infinity") }, "sandbox ready, app/0 running 0")
		step(func() { n.Exit(id, 3) }, "sandbox ready, app/0 exited 3")
		step(func() { n.Must(n.Remove(id)) }, "sandbox ready")
		n.Must(n.Remove(n.SandboxIDs["u"]))
		time.Sleep(15 * time.Second)
		if got := w.heardOf("u"); len(got) == 0 || got[len(got)-1] != "" {
			t.Errorf("reported %q, want that the pod no longer exists", got)
		}
		if len(w.Pods()) != 0 {
			t.Errorf("pods %v, want none", w.Pods())
		}
	})
}

// Each report differs from the previous one. The existing pods are reported first, and then that the runtime is
// available.
func TestNothingIsReportedTwice(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		ids := n.pods("u", 3)
		w := n.run(changes...)
		time.Sleep(time.Minute)
		first := w.heard()
		if len(first) != 4 || first[3].status != nil || first[3].err != nil {
			t.Errorf("the first words: %v, want 3 pods and then that the runtime is there", first)
		}
		n.Exit(ids[0], 1)
		time.Sleep(time.Hour)
		if got := w.heard(); len(got) != 1 {
			t.Errorf("reported %v, want one report of one change", got)
		}
	})
}

// The numbers that the package and the project promise.
func TestQuietNodeCostsNearlyNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		model  critest.Model
		atMost int // calls to list in an hour
	}{
		{"events", critest.Containerd2, 30},
		{"lists", critest.Containerd16, 2*6*60 + 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{Like: tt.model}, func(t *testing.T, n *node) {
				n.pods("u", 30)
				n.run()
				time.Sleep(time.Minute)
				calls := n.Calls(func() { time.Sleep(time.Hour) })
				if got := calls.Count(critest.ListContainers, critest.ListPodSandbox); got != len(calls) || got > tt.atMost || got < tt.atMost*3/4 {
					t.Errorf("%v in an hour, want at most %d lists and nothing else", calls.Counts(), tt.atMost)
				}
			})
		})
	}
}

func TestEventsCauseOneInspectionOfTheirPod(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		ids := n.pods("u", 30)
		w := n.settled()
		calls := n.Calls(func() {
			n.Exit(ids[7], 1)
			synctest.Wait()
		})
		if got := fmt.Sprint(calls.Counts()); got != "map[ContainerStatus:1 ListContainers:1 ListPodSandbox:1]" {
			t.Errorf("calls after an exit: %v", got)
		}
		if got := w.heard(); len(got) != 1 || got[0].uid != "u07" {
			t.Errorf("reported %v, want u07 at once", got)
		}
	})
}

// A burst of events for one pod during an inspection causes one more inspection.
func TestBurstOfEventsIsOneLook(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.ListContainers: 50 * time.Millisecond}}, func(t *testing.T, n *node) {
		id := n.pod("u")
		n.run()
		time.Sleep(2 * time.Second)
		_, err := n.InjectEvent(faults.Event{Action: faults.Duplicate, Times: faults.Always})
		n.Must(err)
		calls := n.Calls(func() {
			n.Exit(id, 1)
			for i := range 20 {
				n.Start("u", fmt.Sprintf("c%d", i), 0, "sleep infinity")
			}
			time.Sleep(400 * time.Millisecond)
		})
		if got := calls.Count(critest.ListContainers); got > 6 {
			t.Errorf("%d lists for a burst of 82 events", got)
		}
	})
}

// F9: even if events are lost, the last state is reported, at the latest with the
// next list.
func TestF9_EventsGoWrong(t *testing.T) {
	for _, tt := range []struct {
		action faults.Action
		within time.Duration
	}{
		{faults.Drop, 5*time.Minute + time.Second},
		{faults.Duplicate, time.Millisecond},
		{faults.Reorder, 5*time.Minute + time.Second},
		{faults.Timeless, time.Millisecond},
		{faults.Bare, time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt.action), func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				id := n.pod("u")
				w := n.settled()
				_, err := n.InjectEvent(faults.Event{Action: tt.action, Times: faults.Always})
				n.Must(err)
				n.Exit(id, 1)
				time.Sleep(tt.within)
				if got := w.heardOf("u"); len(got) != 1 {
					t.Errorf("reported %q within %v, want one report", got, tt.within)
				}
			})
		})
	}
}

// An event that does not name its pod, for an unknown container.
func TestF9_BareEventOfUnknownContainer(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		w := n.run()
		time.Sleep(2 * time.Second)
		_, err := n.InjectEvent(faults.Event{Action: faults.Bare, Times: faults.Always})
		n.Must(err)
		n.pod("u")
		synctest.Wait()
		if got := w.heardOf("u"); len(got) == 0 || got[len(got)-1] != "sandbox ready, app/0 running 0" {
			t.Errorf("reported %q, want the pod at once", got)
		}
	})
}

// Changes between one stream and the next are observed when the next one opens.
func TestF9_StreamBreaks(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		seen := &streaming{}
		w := n.settled(func(c *Config) { c.Observer = seen })
		if h := w.Health(); !h.Streaming {
			t.Errorf("not streaming: %v", h.StreamErr)
		}
		_, err := n.InjectEvent(faults.Event{Action: faults.Drop})
		n.Must(err)
		n.DisconnectEvents(status.Error(codes.Unavailable, "transport is closing"))
		n.Exit(id, 1)
		time.Sleep(100 * time.Millisecond)
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("reported %q soon after the stream broke, want once", got)
		}
		if h := w.Health(); h.Streaming || !h.OK() {
			t.Errorf("health right after the stream broke: %+v", h)
		}
		time.Sleep(2 * time.Second)
		if h := w.Health(); !h.Streaming {
			t.Errorf("not streaming again: %v", h.StreamErr)
		}
		if got := seen.said(); !slices.Equal(got, []bool{true, false, true}) {
			t.Errorf("observed %v, want %v", got, []bool{true, false, true})
		}
	})
}

// A stream breaks and no other one opens: lists take its place, the first one at once.
func TestF9_StreamThatStaysUnavailable(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		first, second := n.pod("u"), n.pod("v")
		w := n.settled(func(*Config) {})
		_, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.GetContainerEvents}, Times: faults.Always, Err: status.Error(codes.Unavailable, "no stream")})
		n.Must(err)
		for lists := n.Journal().Count(critest.ListContainers); n.Journal().Count(critest.ListContainers) == lists; {
			time.Sleep(10 * time.Millisecond) // a list has just been made, so the next one is not due
		}
		n.DisconnectEvents(status.Error(codes.Unavailable, "transport is closing"))
		n.Exit(first, 1)
		time.Sleep(100 * time.Millisecond)
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("reported %q soon after the stream broke, want the exit", got)
		}
		time.Sleep(time.Minute)
		n.Exit(second, 1)
		time.Sleep(quietRelist)
		if got := w.heardOf("v"); len(got) != 1 {
			t.Errorf("reported %q without a stream, want the exit", got)
		}
	})
}

// streaming is an observer of Streaming only.
type streaming struct {
	NopObserver
	mu  sync.Mutex
	all []bool
}

func (s *streaming) Streaming(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, on)
}

func (s *streaming) said() []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// The results and durations of lists and inspections are observed.
func TestListsAndInspectionsAreObserved(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		seen := &observed{}
		n.run(listsOnly, func(c *Config) { c.Observer = seen })
		time.Sleep(time.Second)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Delay: 100 * time.Millisecond, Err: internal()})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Delay: 50 * time.Millisecond, Err: internal()})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Delay: 70 * time.Millisecond})
		n.Exit(id, 1)
		time.Sleep(time.Minute)
		for _, want := range []string{"list of 1 in 0s", "list of 0 in 100ms, failed", "look at u in 50ms, failed", "look at u in 70ms"} {
			if !slices.Contains(seen.said(), want) {
				t.Errorf("observed %q, want %q", slices.Compact(seen.said()), want)
			}
		}
	})
}

// observed is an observer that records its calls.
type observed struct {
	NopObserver
	mu  sync.Mutex
	all []string
}

func (o *observed) Listed(pods int, took time.Duration, err error) {
	o.say(fmt.Sprint("list of ", pods, " in ", took), err)
}

func (o *observed) Inspected(uid types.UID, took time.Duration, err error) {
	o.say(fmt.Sprint("look at ", uid, " in ", took), err)
}

func (o *observed) say(what string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		what += ", failed"
	}
	o.all = append(o.all, what)
}

func (o *observed) said() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

// A stream that always ends soon is not relied on, and does not have lists read
// each time.
func TestF9_StreamThatFlaps(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		w := n.run()
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					n.DisconnectEvents(nil)
				}
			}
		}()
		defer close(stop)
		time.Sleep(2 * time.Minute)
		w.heard()
		calls := n.Calls(func() { time.Sleep(time.Minute) })
		if got := calls.Count(critest.ListContainers); got < 6 || got > 8 {
			t.Errorf("%d lists a minute, want one in %v", got, quietRelist)
		}
		n.Exit(id, 1)
		time.Sleep(quietRelist)
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("reported %q, want the exit", got)
		}
	})
}

// An upgrade of the runtime adds the event stream.
func TestUnimplementedStreamIsTriedAgainAfterRestart(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.GetContainerEvents}, Times: faults.Always, Err: status.Error(codes.Unimplemented, "unknown method")})
		w := n.run()
		time.Sleep(time.Minute)
		if h := w.Health(); h.Streaming || !errors.Is(h.StreamErr, cri.ErrUnimplemented) || !h.OK() || !strings.Contains(h.String(), "events") {
			t.Errorf("health: %+v, want no problem although nothing is streamed, error %v, and %q in it", h, cri.ErrUnimplemented, "events")
		}
		if got := fault.Hits(); got != 1 {
			t.Errorf("the stream was tried %d times, want once", got)
		}
		fault.Remove()
		n.Must(n.Restart(faults.Restart{Down: 20 * time.Second}))
		time.Sleep(time.Minute)
		if h := w.Health(); !h.Streaming {
			t.Errorf("health: %+v", h)
		}
	})
}

func TestListsFollowChanges(t *testing.T) {
	inBubble(t, critest.Config{Like: critest.Containerd16}, func(t *testing.T, n *node) {
		id := n.pod("u")
		var busy atomic.Bool
		w := n.run(func(c *Config) { c.Busy = func(uid types.UID) bool { return busy.Load() && uid == "u" } })
		time.Sleep(5 * time.Minute)
		perMinute := func() int {
			return n.Calls(func() { time.Sleep(time.Minute) }).Count(critest.ListContainers)
		}
		if got := perMinute(); got > 7 {
			t.Errorf("%d lists in a quiet minute", got)
		}
		busy.Store(true)
		time.Sleep(quietRelist)
		if got := perMinute(); got < 59 || got > 61 {
			t.Errorf("%d lists in a minute in which a pod is in transition, want one a second", got)
		}
		busy.Store(false)
		time.Sleep(5 * time.Minute)
		n.Exit(id, 1)
		time.Sleep(quietRelist)
		w.heard()
		next := n.Start("u", "app", 1, "sleep 1")
		must.Get(w.GetNewerThan(t.Context(), "u", time.Now()))(t)
		time.Sleep(time.Second + time.Second/2)
		if got, want := w.heardOf("u"), "sandbox ready, app/1 exited 0, app/0 exited 1"; len(got) != 1 || got[0] != want {
			t.Errorf("reported %q soon after %s ended, want %q", got, next, want)
		}
	})
}

// The duration of lists limits their number.
func TestListsLeaveTheRuntimeAlone(t *testing.T) {
	inBubble(t, critest.Config{Like: critest.Containerd16, Latency: map[critest.Method]time.Duration{critest.ListContainers: 2 * time.Second}}, func(t *testing.T, n *node) {
		n.pod("u")
		n.run(func(c *Config) { c.Busy = func(types.UID) bool { return true } })
		time.Sleep(time.Minute)
		calls := n.Calls(func() { time.Sleep(10 * time.Minute) })
		if got := calls.Count(critest.ListContainers); got > 61 {
			t.Errorf("%d lists of 2 s in 10 min, want them to take a fifth of the time", got)
		}
	})
}

// F12: an address comes late, without an event and without a change in a list.
func TestF12_LateAddressIsLookedFor(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		w := n.run(changes...)
		time.Sleep(2 * time.Second)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, IPAfter: 7 * time.Second})
		n.RunSandbox("u")
		time.Sleep(5 * time.Second)
		if s, _ := w.cache.Get("u"); s == nil || len(s.IPs()) != 0 {
			t.Errorf("before the address comes: %+v", s)
		}
		w.heard()
		time.Sleep(2*time.Second + maxRetry)
		if s, _ := w.cache.Get("u"); len(s.IPs()) == 0 {
			t.Errorf("no address %v after it came", maxRetry)
		}
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("%d reports of the address, want one", len(got))
		}
	})
}

func TestFreshIsShared(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.ListPodSandbox: 10 * time.Millisecond}}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		since := time.Now()
		time.Sleep(time.Nanosecond)
		calls := n.Calls(func() {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if s, err := w.GetNewerThan(t.Context(), "u", since); err != nil || s.Latest("app") == nil {
						t.Errorf("GetNewerThan: %s, %v", states(s), err)
					}
				})
			}
			all.Wait()
		})
		if got := fmt.Sprint(calls.Counts()); got != "map[ListContainers:1 ListPodSandbox:1]" {
			t.Errorf("20 callers made the calls %v", got)
		}
	})
}

// After an agent restart, all pods are requested while the results of the first list are still being inspected: that
// list suffices, and the runtime need not list all its objects for each pod.
func TestGetNewerThanOfAListedPodMakesNoList(t *testing.T) {
	const pods = 40
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.ContainerStatus: 50 * time.Millisecond}}, func(t *testing.T, n *node) {
		n.pods("u", pods)
		before := time.Now()
		time.Sleep(time.Nanosecond)
		calls := n.Calls(func() {
			w := n.run(listsOnly)
			time.Sleep(10 * time.Millisecond)
			var all sync.WaitGroup
			for i := range pods {
				all.Go(func() {
					if s, err := w.GetNewerThan(t.Context(), types.UID(fmt.Sprintf("u%02d", i)), before); err != nil || s.Latest("app") == nil {
						t.Errorf("GetNewerThan: %s, %v", states(s), err)
					}
				})
			}
			all.Wait()
		})
		if got := calls.Count(critest.ContainerStatus); got != pods {
			t.Errorf("%d calls for the status of %d containers", got, pods)
		}
		if got := calls.Count(critest.ListPodSandbox); got > pods/4 {
			t.Errorf("%d lists, want those that come anyway", got)
		}
	})
}

func TestGetNewerThanOfAKnownStateMakesNoCall(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run()
		before := time.Now()
		time.Sleep(2 * time.Second)
		calls := n.Calls(func() {
			for _, uid := range []types.UID{"u", "new"} {
				for _, since := range []time.Time{{}, before} {
					s, err := w.GetNewerThan(t.Context(), uid, since)
					if err != nil || s.Empty() != (uid == "new") {
						t.Errorf("GetNewerThan(%s, %v): %s, %v, want it empty only for new", uid, since, states(s), err)
					}
				}
			}
		})
		if len(calls) != 0 {
			t.Errorf("calls %v, want none", calls)
		}
	})
}

// A time that lies ahead is waited for, not lied about.
func TestP4_FreshOfTheFuture(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		since := time.Now().Add(time.Minute)
		s, err := w.GetNewerThan(t.Context(), "u", since)
		if err != nil || s.ObservedAt.Before(since) {
			t.Errorf("GetNewerThan: %v, observed at %v, want %v or later", err, s.ObservedAt, since)
		}
	})
}

// A status that GetNewerThan has returned is not reported; a status that no caller has taken is.
func TestGetNewerThanCountsAsReported(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.ListPodSandbox: time.Second}}, func(t *testing.T, n *node) {
		id := n.pod("u")
		_, err := n.InjectEvent(faults.Event{Action: faults.Drop, Times: faults.Always})
		n.Must(err)
		w := n.run()
		time.Sleep(10 * time.Second)
		w.heard()
		n.Exit(id, 1)
		if s, err := w.GetNewerThan(t.Context(), "u", time.Now()); err != nil || states(s) != "sandbox ready, app/0 exited 1" {
			t.Errorf("GetNewerThan: %s, %v, want %q and no error", states(s), err, "sandbox ready, app/0 exited 1")
		}
		time.Sleep(time.Minute)
		if got := w.heard(); len(got) != 0 {
			t.Errorf("reported %v, which GetNewerThan had already returned", got)
		}
		n.Start("u", "app", 1, "sleep infinity")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := w.GetNewerThan(ctx, "u", time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("GetNewerThan: %v, want its context's error", err)
		}
		time.Sleep(time.Minute)
		if got := w.heard(); len(got) != 1 {
			t.Errorf("reported %v, want the status that no caller waited for", got)
		}
	})
}

// A status read for callers of GetNewerThan is reported if it is new and all callers have left.
func TestResultWithoutAWaitingCallerIsReported(t *testing.T) {
	for _, tt := range []struct {
		name  string
		news  bool
		taken []bool // by each caller, when it leaves
		told  int
	}{
		{"no caller waits", true, []bool{false, false}, 1},
		{"the last", true, []bool{false, true}, 0},
		{"the first", true, []bool{true, false}, 0},
		{"no caller waits, and nothing is new", false, []bool{false}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				id := n.pod("u")
				w := n.run()
				time.Sleep(2 * time.Second)
				_, err := n.InjectEvent(faults.Event{Action: faults.Drop, Times: faults.Always})
				n.Must(err)
				w.heard()
				if tt.news {
					n.Exit(id, 1)
				}
				var l *inspection
				for range tt.taken {
					_, l, err = w.statusOrInspection("u", time.Now())
					n.Must(err)
				}
				synctest.Wait()
				for _, taken := range tt.taken {
					w.endWait("u", l, taken)
					synctest.Wait()
				}
				if got := w.heardOf("u"); len(got) != tt.told {
					t.Errorf("reported %q, want %d times", got, tt.told)
				}
			})
		})
	}
}

// A caller that takes an older status late does not undo the report of a newer one.
func TestFreshTakenLate(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		_, l, err := w.statusOrInspection("u", time.Now())
		n.Must(err)
		time.Sleep(time.Second)
		n.Exit(id, 1)
		synctest.Wait()
		w.heard()
		w.endWait("u", l, true)
		w.Inspect("u")
		synctest.Wait()
		if got := w.heardOf("u"); len(got) != 0 {
			t.Errorf("reported %q once more", got)
		}
	})
}

func TestW11_GetNewerThanKeepsNothingOfARemovedPod(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		_, err := n.InjectEvent(faults.Event{Action: faults.Drop, Times: faults.Always})
		n.Must(err)
		n.Must(n.Remove(n.SandboxIDs["u"]))
		if s, err := w.GetNewerThan(t.Context(), "u", time.Now()); err != nil || !s.Empty() {
			t.Errorf("GetNewerThan: %s, %v", states(s), err)
		}
		synctest.Wait()
		w.Watcher.mu.Lock()
		defer w.Watcher.mu.Unlock()
		if len(w.pods) != 0 {
			t.Errorf("%d pods are left", len(w.pods))
		}
	})
}

func TestInspectionIsDoneSoon(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		id := n.pod("u")
		w := n.run(changes...)
		time.Sleep(2 * time.Minute)
		w.heard()
		_, err := n.InjectEvent(faults.Event{Action: faults.Drop, Times: faults.Always})
		n.Must(err)
		n.Exit(id, 1)
		w.Inspect("u")
		synctest.Wait()
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("reported %q, want the exit at once", got)
		}
	})
}

func TestPodsAreThoseOfTheList(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		n.pods("u", 2)
		id := n.pod("v")
		w := n.run(changes...)
		time.Sleep(2 * time.Second)
		n.Exit(id, 0)
		_, err := n.Client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: n.SandboxIDs["v"]})
		n.Must(err)
		n.Must(n.Remove(n.SandboxIDs["u01"]))
		time.Sleep(10 * time.Second)
		var got []string
		for _, p := range w.Pods() {
			got = append(got, fmt.Sprintf("%s/%s %s %s %v", p.Namespace, p.Name, p.UID, p.Source, p.Running))
		}
		if want := []string{"ns/u00 u00 file true", "ns/v v file false"}; !slices.Equal(got, want) {
			t.Errorf("pods %q, want %q", got, want)
		}
	})
}

// Two lists disagree with a later inspection: the inspection counts.
func TestOlderListDoesNotUndoALook(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.RunSandbox("u")
		w := n.run(listsOnly)
		time.Sleep(time.Minute)
		w.heard()
		gate := &faults.Gate{}
		n.Fault(faults.Fault{When: faults.After, Match: faults.Match{Method: critest.ListContainers}, Hang: gate})
		time.Sleep(quietRelist)
		if gate.Waiting() != 1 {
			t.Fatal("no list is in progress")
		}
		n.Start("u", "app", 0, "sleep infinity")
		if s, err := w.GetNewerThan(t.Context(), "u", time.Now()); err != nil || s.Latest("app") == nil {
			t.Errorf("GetNewerThan: %s, %v", states(s), err)
		}
		gate.Open()
		synctest.Wait()
		if s, err := w.cache.Get("u"); err != nil || s.Latest("app") == nil {
			t.Errorf("cache: %s, %v; the list that began before the start has undone it", states(s), err)
		}
		if got := w.heard(); len(got) != 0 {
			t.Errorf("reported %v, want no report", got)
		}
	})
}

// A list shows a pod that a later inspection did not find. The list is older than that inspection, so the forgotten pod
// does not appear again.
func TestOlderListDoesNotBringBackAPod(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run(listsOnly)
		time.Sleep(time.Minute)
		gate := &faults.Gate{}
		n.Fault(faults.Fault{When: faults.After, Match: faults.Match{Method: critest.ListContainers}, Hang: gate})
		time.Sleep(quietRelist)
		if gate.Waiting() != 1 {
			t.Fatal("no list is in progress")
		}
		n.Must(n.Remove(n.SandboxIDs["u"]))
		if s, err := w.GetNewerThan(t.Context(), "u", time.Now()); err != nil || !s.Empty() {
			t.Errorf("GetNewerThan: %s, %v, want nothing", states(s), err)
		}
		synctest.Wait()
		w.heard()
		gate.Open()
		synctest.Wait()
		if got := w.Pods(); len(got) != 0 {
			t.Errorf("pods %v, want none", got)
		}
		if got := w.heard(); len(got) != 0 {
			t.Errorf("reported %v, want nothing", got)
		}
	})
}

// W11: a caller that saw the pod in Pods is notified when the pod is no longer there, even if no inspection has ever found
// it.
func TestW11_PodThatOnlyAListHasSeen(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		w := n.settled(listsOnly)
		gate := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.PodSandboxStatus}, Hang: gate})
		n.RunSandbox("u")
		time.Sleep(quietRelist)
		if got := w.Pods(); len(got) != 1 {
			t.Fatalf("pods %v, want the one that is looked at", got)
		}
		n.Must(n.Remove(n.SandboxIDs["u"]))
		gate.Open()
		time.Sleep(time.Minute)
		if got := w.heardOf("u"); !slices.Equal(got, []string{""}) || len(w.Pods()) != 0 {
			t.Errorf("reported %q with pods %v, want one report that the pod no longer exists", got, w.Pods())
		}
	})
}

func TestW11_NothingIsKeptOfRemovedPods(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		w := n.run(changes...)
		time.Sleep(2 * time.Second)
		for i := range 100 {
			uid := fmt.Sprintf("u%03d", i)
			id := n.pod(uid)
			if i%3 == 0 {
				n.Exit(id, 1)
			}
			if i%2 == 0 {
				if _, err := w.GetNewerThan(t.Context(), types.UID(uid), time.Now()); err != nil {
					t.Error(err)
				}
			}
			n.Must(n.Remove(n.SandboxIDs[uid]))
			w.Inspect(types.UID("unheard of " + uid))
		}
		time.Sleep(w.config.EventRelist + time.Minute)
		w.Watcher.mu.Lock()
		defer w.Watcher.mu.Unlock()
		if len(w.pods) != 0 || len(w.cache.UIDs()) != 0 {
			t.Errorf("%d pods and %d entries in the cache are left", len(w.pods), len(w.cache.UIDs()))
		}
	})
}

func TestRunAndRunAgain(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w, err := New(Config{Reader: n.Reader(), Events: n.Client})
		n.Must(err)
		if _, err := w.Available(); !errors.Is(err, ErrNotListed) || len(n.Journal().Of(critest.ListContainers)) != 0 {
			t.Errorf("before Run: %v", err)
		}
		for round := range uint32(2) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			synctest.Wait()
			if s, err := w.GetNewerThan(ctx, "u", time.Time{}); err != nil || s.Latest("app") == nil {
				t.Errorf("GetNewerThan as Run begins: %s, %v", states(s), err)
			}
			if err := w.Run(t.Context()); err == nil {
				t.Error("Run twice at once: no error")
			}
			time.Sleep(2 * time.Second)
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Hang: &faults.Gate{}})
			n.Start("u", "app", round+1, "sleep infinity")
			synctest.Wait()
			asked := make(chan error, 1)
			go func() {
				_, err := w.GetNewerThan(t.Context(), "u", time.Now().Add(-1))
				asked <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-asked; !errors.Is(err, ErrStopped) {
				t.Errorf("GetNewerThan as Run ends: %v", err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
			if _, err := w.GetNewerThan(t.Context(), "u", time.Now()); !errors.Is(err, ErrStopped) {
				t.Errorf("GetNewerThan after Run: %v", err)
			}
			if _, err := w.cache.Get("u"); err != nil {
				t.Errorf("the end of Run is taken for a failure: %v", err)
			}
			time.Sleep(LongInspection)
			if h := w.Health(); len(h.Pods) != 0 || !errors.Is(h.Err, ErrStopped) {
				t.Errorf("health after Run: %+v", h)
			}
			w.Inspect("u")
		}
	})
}

func TestNewNamesTheInvalidField(t *testing.T) {
	r := &reader.Reader{}
	for want, c := range map[string]Config{
		"Config.Reader is missing":    {},
		"Config.Owner":                {Reader: r, Owner: cri.Owner{Name: "a b"}},
		"EventRelist is negative: -1": {Reader: r, Settings: Settings{EventRelist: -1}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
	w := must.Get(New(Config{Reader: r}))(t)
	if _, err := w.GetNewerThan(t.Context(), "", time.Time{}); err == nil {
		t.Error("GetNewerThan of no pod: no error")
	}
}

// Changed may call everything of the Watcher.
func TestCallbacksMayCallBack(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		id := n.pod("u")
		var w *watch
		ready := make(chan struct{})
		use := func() {
			<-ready
			w.Inspect("u")
			w.Health()
			w.Pods()
			w.Available()
		}
		w = n.run(append(changes, func(c *Config) {
			c.Changed = func(uid types.UID, s *runtime.PodStatus) { use(); w.changed(uid, s) }
			c.AvailableChanged = func(error) { use() }
			c.Busy = func(types.UID) bool { use(); return false }
		})...)
		close(ready)
		time.Sleep(time.Minute)
		n.Exit(id, 1)
		time.Sleep(quietRelist)
		if got := w.heardOf("u"); len(got) != 2 {
			t.Errorf("reported %q, want 2 of them", got)
		}
	})
}

// A pod whose containers have ended counts as running as long as its sandbox is ready, because the sandbox must be stopped.
func TestPodWithAReadySandboxRuns(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		w := n.settled()
		n.Exit(id, 0)
		time.Sleep(2 * time.Second)
		if pods := w.Pods(); len(pods) != 1 || !pods[0].Running {
			t.Errorf("pods %+v, want one that runs", pods)
		}
	})
}
