package critest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// eventsOf returns the events of a container as letters: C, S, X and D for created, started, stopped and
// deleted.
func eventsOf(events []*runtimeapi.ContainerEventResponse, id string) string {
	var b strings.Builder
	for _, e := range events {
		if e.GetContainerId() == id {
			b.WriteByte("CSXD"[e.GetContainerEventType()])
		}
	}
	return b.String()
}

func TestF9_EventFaults(t *testing.T) {
	for _, tc := range []struct {
		fault faults.Event
		want  string // immediately
		later string // after ten more seconds
	}{
		{faults.Event{Action: faults.Drop, Skip: 1}, "CXD", "CXD"},
		{faults.Event{Action: faults.Duplicate, Skip: 1}, "CSSXD", "CSSXD"},
		{faults.Event{Action: faults.Reorder, Skip: 1}, "CXSD", "CXSD"},
		{faults.Event{Action: faults.Delay, Skip: 1, Delay: 10 * time.Second}, "CXD", "CXDS"},
		{faults.Event{Action: faults.Drop, Skip: 1, Times: 2}, "CD", "CD"},
		{faults.Event{Action: faults.Drop, Times: faults.Always}, "", ""},
		{faults.Event{Action: faults.Drop, PodUID: "another", Times: faults.Always}, "CSXD", "CSXD"},
	} {
		t.Run(fmt.Sprint(tc.fault.Action, tc.fault.Times), func(t *testing.T) {
			onBubble(t, Config{}, func(n *node) {
				sandbox := n.newSandbox("uid")
				events := n.events()
				tc.fault.Container = "app"
				i, err := n.InjectEvent(tc.fault)
				n.ok(err)
				id := n.newContainer(sandbox, "uid", "serve")
				n.ok(n.startIt(id))
				n.ok(n.stopIt(n.Context(), id, 0))
				n.ok(n.Remove(id))
				got, _ := events()
				if eventsOf(got, id) != tc.want {
					n.Errorf("at once %q, want %q", eventsOf(got, id), tc.want)
				}
				time.Sleep(10 * time.Second)
				got, _ = events()
				if eventsOf(got, id) != tc.later {
					n.Errorf("later %q, want %q", eventsOf(got, id), tc.later)
				}
				if tc.fault.PodUID == "" && i.Hits() == 0 {
					n.Error("nothing was struck")
				}
				i.Remove()
			})
		})
	}
}

func TestF9_ContentOfEvents(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		events := n.events()
		for _, a := range []faults.Action{faults.Timeless, faults.Bare} {
			_, err := n.InjectEvent(faults.Event{Action: a})
			n.ok(err)
		}
		n.newSandbox("uid")
		got, _ := events()
		if len(got) != 2 || got[0].GetCreatedAt() != 0 || got[0].GetPodSandboxStatus() == nil {
			n.Errorf("timeless: %v", got)
		}
		if got[1].GetCreatedAt() == 0 || got[1].GetPodSandboxStatus() != nil {
			n.Errorf("bare: %v, want a creation time and no sandbox status", got)
		}
	})
}

func TestF9_Disconnect(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		events := n.events()
		n.newSandbox("one")
		synctest.Wait() // until both events have been queued
		n.DisconnectEvents(status.Error(codes.Unavailable, "transport is closing"))
		if got, err := events(); len(got) != 2 || status.Code(err) != codes.Unavailable {
			n.Errorf("%d events, then %v", len(got), err)
		}
		n.newSandbox("two") // there is no listener
		again := n.events()
		if got, err := again(); err != nil || len(got) != 2 {
			n.Errorf("%d events were kept, %v", len(got), err)
		}
		n.DisconnectEvents(nil)
		if _, err := again(); status.Code(err) != codes.Unavailable {
			n.Errorf("then %v, want %v", err, codes.Unavailable)
		}
		n.newSandbox("three")
		time.Sleep(keepEvents)
		if got, _ := n.events()(); len(got) != 0 {
			n.Errorf("%d events were kept too long", len(got))
		}
	})
}

func TestEventFaultValidates(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		for _, f := range []faults.Event{{Action: 99}, {Skip: -1}, {Times: -2}, {Action: faults.Delay}, {Action: faults.Drop, Delay: 1}} {
			if _, err := n.InjectEvent(f); err == nil {
				n.Errorf("%+v", f)
			}
		}
	})
}

func TestNoEvents(t *testing.T) {
	onBubble(t, Config{Like: Containerd16}, func(n *node) {
		if _, err := n.events()(); status.Code(err) != codes.Unimplemented {
			n.Errorf("%v, want %v", err, codes.Unimplemented)
		}
	})
}
