package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// bothWays runs a test with events and with lists alone.
func bothWays(t *testing.T, f func(t *testing.T, n *node, changes ...func(*Config))) {
	run := func(name string, c critest.Config, changes ...func(*Config)) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c, func(t *testing.T, n *node) { f(t, n, changes...) })
		})
	}
	run("events", critest.Config{})
	run("lists", critest.Config{}, listsOnly)
	run("containerd 1.6", critest.Config{Like: critest.Containerd16})
}

// More pods hang than inspections may run concurrently.
func TestP1_HungPodsDelayNoOther(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		stuck, well := n.pods("stuck", 20), n.pods("well", 20)
		w := n.settled(changes...)
		gate := &faults.Gate{}
		n.Fault(faults.Fault{Hang: gate, Times: faults.Always, Match: faults.Match{
			Method: critest.ContainerStatus, If: func(c critest.Call) bool { return strings.HasPrefix(c.PodUID, "stuck") },
		}})
		for _, id := range stuck {
			n.Exit(id, 1)
		}
		for _, id := range well {
			n.Exit(id, 2)
		}
		time.Sleep(1500 * time.Millisecond)
		told := map[types.UID]string{}
		for _, h := range w.heard() {
			told[h.uid] = states(h.status)
		}
		for i := range well {
			if got, want := told[types.UID(fmt.Sprintf("well%02d", i))], "sandbox ready, app/0 exited 2"; got != want {
				t.Errorf("well%02d is %q while others hang, want %q", i, got, want)
			}
		}
		if h := w.Health(); !h.OK() {
			t.Errorf("health: %v, before anything took long", h)
		}
		if len(told) != len(well) {
			t.Errorf("%d pods were reported, want %d: %v", len(told), len(well), told)
		}
		since := time.Now()
		if _, err := w.GetNewerThan(t.Context(), "well00", since); err != nil || time.Since(since) > slowInspection {
			t.Errorf("GetNewerThan took %v while others hang: %v", time.Since(since), err)
		}
		time.Sleep(LongInspection)
		if h := w.Health(); len(h.Pods) != len(stuck) || h.Err != nil || h.OK() ||
			!slices.IsSortedFunc(h.Pods, func(a, b ReadFailure) int { return strings.Compare(string(a.UID), string(b.UID)) }) {
			t.Errorf("health: %+v, want trouble with %d pods alone", h, len(stuck))
		}
		gate.Open()
		time.Sleep(time.Second)
		if got := len(w.heard()); got != len(stuck) {
			t.Errorf("%d pods reported after they no longer hung, want %d", got, len(stuck))
		}
		if h := w.Health(); !h.OK() {
			t.Errorf("health: %v, want ok", h)
		}
	})
}

// Slow inspections run concurrently.
func TestP1_SlowInspectionsCauseLittleDelay(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.ContainerStatus: 300 * time.Millisecond}}, func(t *testing.T, n *node) {
		ids := n.pods("u", 100)
		w := n.run()
		time.Sleep(10 * time.Second)
		w.heard()
		for _, id := range ids {
			n.Exit(id, 1)
		}
		time.Sleep(2 * time.Second)
		if got := len(w.heard()); got != len(ids) {
			t.Errorf("%d of %d pods reported within 2 s, with inspections of 300 ms", got, len(ids))
		}
	})
}

// A finished inspection releases its slot at once.
func TestP1_FastInspectionsCauseNoDelay(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pods("u", 20)
		w := n.run()
		synctest.Wait()
		if got := len(w.heard()); got != 21 {
			t.Errorf("%d reports at once, want 20 pods and an available runtime", got)
		}
	})
}

func TestP1_ConcurrentInspectionsAreBounded(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.ContainerStatus: slowInspection / 2}}, func(t *testing.T, n *node) {
		n.pods("u", 40)
		n.run()
		time.Sleep(time.Second)
		if got := n.Journal().Of(critest.ContainerStatus).MaxConcurrent(); got != maxInspections {
			t.Errorf("%d looks at a time, want %d", got, maxInspections)
		}
	})
}

func TestP2_FailedInspectionIsRepeatedUntilItSucceeds(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		id := n.pod("u")
		w := n.settled(changes...)
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Times: 4, Err: internal()})
		n.Exit(id, 3)
		time.Sleep(1200 * time.Millisecond)
		if _, err := w.cache.Get("u"); err == nil || fault.Hits() == 0 {
			t.Errorf("no error of the look in the cache after %d failures", fault.Hits())
		}
		failed := n.Journal().Of(critest.ContainerStatus).Where(func(c critest.Call) bool { return c.Err != nil })
		if h := w.Health(); len(h.Pods) != 1 || h.Pods[0].UID != "u" || h.Pods[0].Err == nil || !h.Pods[0].Since.Equal(failed[0].Start) || h.OK() {
			t.Errorf("health: %+v, want trouble since %v", h, failed[0].Start)
		}
		time.Sleep(5 * time.Second)
		if got, want := w.heardOf("u"), []string{"sandbox ready, app/0 exited 3"}; !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
		if s, err := w.cache.Get("u"); err != nil || s.Latest("app").ExitCode != 3 || !w.Health().OK() {
			t.Errorf("cache: %v, %v; health: %v", states(s), err, w.Health())
		}
	})
}

// A pod that is readable again is reported, even with an unchanged status, because callers got an error before.
func TestP2_RecoveryIsReportedOnce(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.settled()
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Err: internal()})
		calls := n.Calls(func() {
			if _, err := w.GetNewerThan(t.Context(), "u", time.Now()); !strings.Contains(fmt.Sprint(err), "disk on fire") {
				t.Errorf("GetNewerThan: %v, want the error of the look", err)
			}
			time.Sleep(time.Minute)
		})
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("reported %q, want once", got)
		}
		if got := calls.Count(critest.ListContainers); got != 2 {
			t.Errorf("%d lists, want those of the look and of its repetition", got)
		}
	})
}

// Each failure in a row doubles the pause, and a success resets it. A failed inspection does not
// answer a later request.
func TestP2_PauseStartsAgain(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		fail := func(times int) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Times: times, Err: internal()})
			w.Inspect("u")
		}
		fail(8)
		time.Sleep(time.Minute)
		fail(1)
		time.Sleep(minRetry)
		synctest.Wait()
		if _, err := w.cache.Get("u"); err != nil {
			t.Errorf("%v, and not read again after %v", err, minRetry)
		}
		since := time.Now()
		time.Sleep(time.Nanosecond)
		fail(1)
		synctest.Wait()
		must.Get(w.GetNewerThan(t.Context(), "u", since))(t)
	})
}

func TestP2_FailingPodIsNotHammered(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		id := n.pod("u")
		n.run(changes...)
		time.Sleep(2 * time.Second)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Times: faults.Always, Err: internal()})
		n.Exit(id, 3)
		looks := n.Calls(func() { time.Sleep(time.Minute) }).Count(critest.ContainerStatus)
		if looks < 10 || looks > 20 {
			t.Errorf("%d looks in a minute, want them to grow apart to %v", looks, maxRetry)
		}
	})
}

// If inspections of one pod fail with Unavailable while lists succeed, only that pod is
// affected.
func TestP2_OneUnavailablePodIsNoUnavailableRuntime(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		stuck, well := n.pod("stuck"), n.pod("well")
		w := n.settled(changes...)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus, PodUID: "stuck"}, Times: faults.Always, Err: status.Error(codes.Unavailable, "shim gone")})
		n.Exit(stuck, 1)
		n.Exit(well, 2)
		time.Sleep(time.Minute)
		if got := w.heard(); len(got) != 1 || got[0].uid != "well" {
			t.Errorf("reported %v, want the healthy pod, and no unavailable runtime", got)
		}
	})
}

// A consumer that does not return delays only its own pod, and gets the newest state.
func TestP3_NothingIsDropped(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		ids := map[types.UID]string{"a": n.pod("a"), "b": n.pod("b")}
		stall := make(chan struct{})
		w := n.run(append(changes, func(c *Config) {
			hear := c.Changed
			c.Changed = func(uid types.UID, s *runtime.PodStatus) {
				hear(uid, s)
				if app := s.Latest("app"); uid == "a" && app != nil && app.Attempt >= 1 {
					<-stall
				}
			}
		})...)
		time.Sleep(2 * time.Second)
		for attempt := range uint32(200) {
			for uid, id := range ids {
				n.Exit(id, 1)
				synctest.Wait()
				n.Must(n.Remove(id))
				ids[uid] = n.Start(string(uid), "app", attempt+1, "sleep infinity")
			}
			time.Sleep(25 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		last := map[types.UID]string{}
		for _, h := range w.heard() {
			last[h.uid] = states(h.status)
		}
		if last["b"] != "sandbox ready, app/200 running 0" {
			t.Errorf("b is %q while the consumer of a stalls", last["b"])
		}
		close(stall)
		time.Sleep(2 * time.Second)
		if got := w.heardOf("a"); len(got) == 0 || len(got) > 2 || got[len(got)-1] != "sandbox ready, app/200 running 0" {
			t.Errorf("reported of pod a after the stall: %q, want the newest state", got)
		}
	})
}

// The event of a start arrives late. A request after the start still shows it.
func TestP4_FreshDoesNotWaitForTheEvent(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.RunSandbox("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		_, err := n.InjectEvent(faults.Event{Action: faults.Delay, Delay: 3 * time.Second, Times: faults.Always})
		n.Must(err)
		n.Start("u", "app", 0, "sleep infinity")
		since := time.Now()
		s, err := w.GetNewerThan(t.Context(), "u", since)
		if err != nil || s.Latest("app") == nil || time.Since(since) != 0 {
			t.Errorf("GetNewerThan after %v: %v, %v; want the container", time.Since(since), states(s), err)
		}
	})
}

// An inspection in flight does not show later changes.
func TestP4_InspectionInFlightIsTooOld(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.ContainerStatus: time.Second}}, func(t *testing.T, n *node) {
		n.RunSandbox("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		n.Start("u", "first", 0, "sleep infinity")
		time.Sleep(500 * time.Millisecond) // the inspection after the event is in progress
		n.Start("u", "second", 0, "sleep infinity")
		since := time.Now()
		time.Sleep(time.Nanosecond)
		s, err := w.GetNewerThan(t.Context(), "u", since)
		if err != nil || s.Latest("second") == nil || !s.ObservedAt.After(since) {
			t.Errorf("GetNewerThan: %s, %v, want both containers", states(s), err)
		}
	})
}

// A read that began at the same instant as a change may have happened before it.
func TestP4_ReadOfTheSameInstantIsNotFreshEnough(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		t.Run(fmt.Sprintf("in flight %v", inFlight), func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				n.RunSandbox("u")
				w := n.run()
				time.Sleep(2 * time.Second)
				_, err := n.InjectEvent(faults.Event{Action: faults.Drop, Times: faults.Always})
				n.Must(err)
				if inFlight {
					n.Fault(faults.Fault{When: faults.After, Match: faults.Match{Method: critest.ListContainers}, Delay: time.Second})
				}
				w.Inspect("u")
				synctest.Wait()
				n.Start("u", "app", 0, "sleep infinity")
				if s, err := w.GetNewerThan(t.Context(), "u", time.Now()); err != nil || s.Latest("app") == nil {
					t.Errorf("GetNewerThan: %s, %v, want the container", states(s), err)
				}
			})
		})
	}
}

// The result of an inspection is dropped if a later list does not have the pod.
func TestP4_InspectionOlderThanAListIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := must.Get(New(Config{Reader: &reader.Reader{}}))(t)
		began := time.Now()
		w.cache.SetListed(nil, began.Add(time.Second))
		p := w.pod("u")
		w.succeeded(p, &inspection{began: began}, &runtime.PodStatus{UID: "u", ObservedAt: began, Sandboxes: []runtime.SandboxStatus{{ID: "s"}}})
		if p.latest != nil || p.unreported {
			t.Errorf("%s is taken for the newest status", states(p.latest))
		}
	})
}

// Every reported status was read: the list calls began at its time or later, and the
// inspections after the list.
func TestP4_EveryStampIsTheBeginningOfARead(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		ids := n.pods("u", 5)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Times: faults.Always, Delay: 50 * time.Millisecond})
		w := n.run(changes...)
		for i, id := range ids {
			time.Sleep(time.Duration(i) * 777 * time.Millisecond)
			n.Exit(id, 1)
			uid := types.UID(fmt.Sprintf("u%02d", i))
			if _, err := w.GetNewerThan(t.Context(), uid, time.Now()); err != nil {
				t.Error(err)
			}
			for _, uid := range append(w.cache.UIDs(), "none") {
				s, ok, err := w.cache.Newer(uid, time.Time{})
				n.Must(err)
				if _, later, _ := w.cache.Newer(uid, s.ObservedAt.Add(1)); !ok || later {
					t.Errorf("the status of %s counts as newer than its read", uid)
				}
				if !slices.ContainsFunc(n.Journal().Of(critest.ListPodSandbox), func(c critest.Call) bool { return c.Start.Equal(s.ObservedAt) }) {
					t.Errorf("%s was observed at %v, when no read began", uid, s.ObservedAt)
				}
			}
			time.Sleep(30 * time.Second)
		}
	})
}

func TestP5_FreshIsInterrupted(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run()
		time.Sleep(2 * time.Second)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Times: faults.Always, Hang: &faults.Gate{}})
		for _, ahead := range []time.Duration{0, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if _, err := w.GetNewerThan(ctx, "u", began.Add(ahead)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("GetNewerThan of %v ahead returned %v after %v, want with its context", ahead, err, time.Since(began))
			}
		}
	})
}

// A failed inspection leaves no status for GetNewerThan, which reads the pod again.
func TestP4_FreshAfterAFailedLook(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.settled()
		asked := time.Now()
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Err: internal(), Times: 2})
		time.Sleep(time.Millisecond)
		for _, fails := range []bool{true, true, false} {
			status, err := w.GetNewerThan(t.Context(), "u", asked)
			if fails != (err != nil) || fails != status.Empty() {
				t.Errorf("GetNewerThan returned %s and %v, want an error: %t", states(status), err, fails)
			}
		}
	})
}

// A list does not show addresses, so it does not replace an inspection of a pod without one.
func TestF12_ListIsNoInspectionOfAPodWithoutAddress(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, IPAfter: time.Hour})
		n.RunSandbox("u")
		w := n.settled(listsOnly, func(c *Config) { c.Busy = func(types.UID) bool { return true } })
		time.Sleep(time.Minute) // the pauses between inspections have grown to maxRetry, those between lists to a second
		looks := func() int { return n.Journal().Count(critest.PodSandboxStatus) }
		for seen := looks(); looks() == seen; {
			time.Sleep(10 * time.Millisecond)
		}
		asked, before, lists := time.Now(), looks(), n.Journal().Count(critest.ListPodSandbox)
		time.Sleep(maxRetry / 2)
		if looks() != before || n.Journal().Count(critest.ListPodSandbox) == lists {
			t.Fatal("no list was read between two looks")
		}
		status, err := w.GetNewerThan(t.Context(), "u", asked)
		if err != nil || status.Empty() {
			t.Fatalf("GetNewerThan returned %s and %v", states(status), err)
		}
		if got := looks() - before; got != 1 {
			t.Errorf("GetNewerThan looked at the pod %d times after a list, want once", got)
		}
	})
}

// A list that the end of Run interrupts does not hang.
func TestP7_EndCutsOffAList(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		w := n.settled(listsOnly)
		gate := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Hang: gate})
		time.Sleep(2 * quietRelist)
		if h := w.Health(); h.Listing.IsZero() {
			t.Fatal("no list is in progress")
		}
		if err := w.stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		lists := n.Journal().Of(critest.ListPodSandbox).Count()
		if h := w.Health(); !h.Listing.IsZero() || !errors.Is(h.Err, ErrStopped) {
			t.Errorf("after the end of Run, health is %+v", h)
		}
		time.Sleep(time.Hour)
		if got := n.Journal().Of(critest.ListPodSandbox).Count(); got != lists {
			t.Errorf("%d lists after the end of Run", got-lists)
		}
	})
}

// Busy makes lists more frequent, so that it matters only while no events are relied on.
func TestBusyIsAskedWithoutEvents(t *testing.T) {
	for name, streams := range map[string]bool{"events": true, "lists": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				n.pod("u")
				var asked atomic.Int32
				w := n.settled(func(c *Config) {
					c.Busy = func(types.UID) bool { asked.Add(1); return false }
					if !streams {
						c.Events = nil
					}
				})
				asked.Store(0)
				time.Sleep(3 * w.config.EventRelist)
				if got := asked.Load(); (got == 0) != streams {
					t.Errorf("Busy was called %d times, and events are relied on: %t", got, streams)
				}
			})
		})
	}
}

func TestP7_HungListIsVisible(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run(listsOnly)
		time.Sleep(time.Minute)
		gate := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Hang: gate})
		time.Sleep(quietRelist + 30*time.Second)
		h := w.Health()
		if age := h.At.Sub(h.Listing); h.Listing.IsZero() || age < 30*time.Second || h.OK() || !strings.Contains(h.String(), "list: in progress for") {
			t.Errorf("the list is %v old, health says %q", age, h)
		}
		if age := h.At.Sub(h.Listed); age < 30*time.Second {
			t.Errorf("the last successful list is %v old, want at least 30 s", age)
		}
		gate.Open()
		time.Sleep(time.Second)
		if h := w.Health(); !h.OK() || h.String() != "ok" {
			t.Errorf("health: %v, want ok", h)
		}
	})
}

// A list or inspection that never returns times out, and the next one succeeds.
func TestP7_HungInspectionIsAbandoned(t *testing.T) {
	for _, m := range []critest.Method{critest.ListPodSandbox, critest.ContainerStatus} {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				w := n.run(listsOnly)
				time.Sleep(time.Second)
				n.Fault(faults.Fault{Match: faults.Match{Method: m}, Hang: &faults.Gate{}})
				n.pod("u")
				w.heard()
				time.Sleep(readTimeout + 2*time.Second)
				if got := w.heardOf("u"); len(got) != 1 {
					t.Errorf("reported %q after the inspection was abandoned, want one report", got)
				}
			})
		})
	}
}

func TestP8_ContainerThatLivedBetweenInspectionsIsSeen(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		n.RunSandbox("u")
		w := n.run(changes...)
		time.Sleep(time.Minute)
		w.heard()
		_, err := n.InjectEvent(faults.Event{Action: faults.Delay, Delay: time.Second, Times: faults.Always})
		n.Must(err)
		n.Start("u", "app", 0, "exit 3")
		synctest.Wait()
		time.Sleep(20 * time.Second)
		if got, want := w.heardOf("u"), []string{"sandbox ready, app/0 exited 3"}; !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
	})
}

// F6: a pod that is listed but not found by the inspection counts as removed (kubernetes #107670).
func TestP8_ListedButNotFoundIsLeftOut(t *testing.T) {
	bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
		id := n.pod("u")
		w := n.run(changes...)
		time.Sleep(2 * time.Second)
		show := n.Hide(id, faults.InStatus)
		defer show()
		n.Exit(id, 3)
		time.Sleep(20 * time.Second)
		if s, err := w.cache.Get("u"); err != nil || states(s) != "sandbox ready" {
			t.Errorf("%s, %v, want the container left out", states(s), err)
		}
		time.Sleep(time.Minute)
		if got := n.Calls(func() { time.Sleep(time.Minute) }).Count(critest.ListContainers); got > 10 {
			t.Errorf("%d lists a minute for a pod that does not change", got)
		}
	})
}

// During a long outage of the runtime, calls are made with back-off, and the first answer resumes everything.
func TestE1_RuntimeUnavailable(t *testing.T) {
	for _, disconnect := range []bool{false, true} {
		t.Run(fmt.Sprintf("disconnected %v", disconnect), func(t *testing.T) {
			bothWays(t, func(t *testing.T, n *node, changes ...func(*Config)) {
				const away = 20 * time.Minute
				n.pods("u", 30)
				w := n.settled(changes...)
				calls := n.Calls(func() {
					n.Must(n.Restart(faults.Restart{Down: away, Disconnect: disconnect, Containers: faults.EffectStopped}))
					time.Sleep(away - time.Second)
				})
				if most := int(away/maxRetry) + 20; len(calls) > most || !disconnect && len(calls) < most-40 {
					t.Errorf("%d calls while the runtime is unavailable, want about %d: %v", len(calls), most, calls.Counts())
				}
				gone := w.heard()
				if len(gone) != 1 || !errors.Is(gone[0].err, cri.ErrUnavailable) {
					t.Errorf("reported %v, want one report of the unavailable runtime", gone)
				}
				turnedAway(t, w)
				calls = n.Calls(func() { time.Sleep(10 * time.Second) })
				answered := calls.Where(func(c critest.Call) bool { return c.Err == nil })
				if len(answered) == 0 || answered[0].Method != critest.ListPodSandbox {
					t.Errorf("the first call that was answered is not a list:\n%v", answered)
				}
				words := w.heard()
				if len(words) != 31 || !slices.ContainsFunc(words[30:], func(h word) bool { return h.status == nil && h.err == nil }) {
					t.Errorf("reported\n%v\nwant 30 changed pods, and then an available runtime", words)
				}
				if _, err := w.Available(); err != nil || !w.Health().OK() {
					t.Errorf("available: %v; health: %v", err, w.Health())
				}
			})
		})
	}
}

// turnedAway checks the errors of a Watcher while the runtime is unavailable.
func turnedAway(t *testing.T, w *watch) {
	t.Helper()
	began := time.Now()
	_, err := w.GetNewerThan(t.Context(), "u00", began)
	var away *UnavailableError
	if !errors.As(err, &away) || !away.Temporary() || !errors.Is(err, cri.ErrUnavailable) || time.Since(began) != 0 {
		t.Errorf("GetNewerThan: %v after %v, want an UnavailableError at once", err, time.Since(began))
	}
	if since, err := w.Available(); !errors.As(err, &away) || time.Since(since) < 19*time.Minute {
		t.Errorf("available: %v, %v, want an UnavailableError for at least %v", since, err, 19*time.Minute)
	}
	if h := w.Health(); h.OK() || !strings.Contains(h.String(), "runtime: not available for") {
		t.Errorf("health: %v, want a problem with %q in it", h, "runtime: not available for")
	}
	w.Inspect("u01")
}

// The runtime is unavailable when Run begins.
func TestE1_RuntimeUnavailableFromTheBeginning(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		n.Must(n.Restart(faults.Restart{Down: time.Minute}))
		w := n.run()
		if _, err := w.GetNewerThan(t.Context(), "u", time.Time{}); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("GetNewerThan: %v, want an unavailable runtime", err)
		}
		time.Sleep(time.Minute + 6*time.Second)
		if got := len(w.heard()); got != 3 {
			t.Errorf("%d reports, want three: unavailable, the pod, and available", got)
		}
	})
}

// An inspection that fails with Unavailable causes a list at once, although the stream of
// events is still open.
func TestE1_InspectionFindsTheRuntimeUnavailable(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.settled()
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Times: faults.Always, Err: status.Error(codes.Unavailable, "away")})
		if _, err := w.GetNewerThan(t.Context(), "u", time.Now()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("GetNewerThan: %v", err)
		}
		synctest.Wait()
		if got := w.heard(); len(got) != 1 || !errors.Is(got[0].err, cri.ErrUnavailable) {
			t.Errorf("reported %v, want an unavailable runtime", got)
		}
		fault.Remove()
		time.Sleep(minRetry)
		synctest.Wait()
		must.Get(w.Available())(t)
	})
}

// A queued inspection does not run after the runtime has become unavailable.
func TestE1_InspectionWaitsForTheRuntime(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pod("u")
		w := n.run(listsOnly)
		time.Sleep(2 * time.Second)
		for range maxInspections {
			w.slots <- struct{}{}
		}
		w.Inspect("u")
		n.Must(n.Restart(faults.Restart{Down: time.Minute}))
		time.Sleep(quietRelist)
		calls := n.Calls(func() {
			<-w.slots
			synctest.Wait()
		})
		if _, err := w.Available(); err == nil || len(calls) != 0 {
			t.Errorf("%v calls while the runtime is unavailable: %v", calls.Counts(), err)
		}
	})
}

// One pod that hangs does not keep the runtime's return a secret.
func TestE1_HungPodDoesNotHoldUpTheReturn(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.pods("u", 3)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus, PodUID: "u01"}, Times: faults.Always, Hang: &faults.Gate{}})
		w := n.run()
		time.Sleep(time.Second)
		synctest.Wait()
		must.Get(w.Available())(t)
	})
}

// Other classes of list errors do not stop inspections.
func TestFailingListsDoNotStopLooks(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		w := n.settled()
		all := func(c critest.Call) bool {
			f := c.Request().(*runtimeapi.ListPodSandboxRequest).GetFilter().GetLabelSelector()
			return f[runtime.LabelPodUID] == ""
		}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox, If: all}, Times: faults.Always, Err: internal()})
		n.DisconnectEvents(nil) // has the pods listed
		time.Sleep(time.Second)
		n.Exit(id, 1)
		time.Sleep(time.Second)
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("reported %q, want the exit", got)
		}
		if h := w.Health(); h.ListErr == nil || h.OK() || !strings.Contains(h.String(), "list: fails for") {
			t.Errorf("health: %v, want a problem with the error of the list and %q in it", h, "list: fails for")
		}
		calls := n.Calls(func() { time.Sleep(time.Minute) })
		if got := calls.Count(critest.ListPodSandbox); got > 14 {
			t.Errorf("%d lists a minute that fail, want them to grow apart", got)
		}
	})
}

// A pod that was unreadable is reported when it is readable again, although it has not changed: until then its
// status was an error.
func TestRecoveredPodIsReported(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		id := n.pod("u")
		w := n.settled(listsOnly)
		edit := func(state runtimeapi.ContainerState) {
			n.Must(n.EditContainer(id, func(s *runtimeapi.ContainerStatus) { s.State = state }))
		}
		broken := n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Times: faults.Always, Err: internal()})
		edit(runtimeapi.ContainerState_CONTAINER_UNKNOWN)
		time.Sleep(10 * time.Second)
		if h := w.Health(); len(h.Pods) != 1 {
			t.Fatalf("health: %v, want one pod that cannot be read", h)
		}
		w.heard()
		broken.Remove()
		edit(runtimeapi.ContainerState_CONTAINER_RUNNING)
		time.Sleep(time.Minute)
		if got := w.heardOf("u"); len(got) != 1 {
			t.Errorf("reported %q, want the status once", got)
		}
	})
}

// A call without a UID fails at once, and does not wait for the time of the status.
func TestFreshRefusesAnEmptyUIDAtOnce(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		w, began := n.settled(), time.Now()
		if _, err := w.GetNewerThan(t.Context(), "", began.Add(time.Hour)); err == nil || time.Since(began) > 0 {
			t.Errorf("error %v after %v, want one at once", err, time.Since(began))
		}
	})
}
