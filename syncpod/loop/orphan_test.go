package loop_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/loop"
)

// A manifest was edited while no agent was there. The pod that an earlier one has left
// stops before that of the same name starts.
func TestM2_HeirWaitsForTheOrphan(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.StopContainer: 3 * time.Second}}, func(t *testing.T, n *node) {
		n.leave(nil, pod("file", "web", "old", forever))
		src := loop.NewPush("file")
		set(t, src, pod("file", "web", "new", forever))
		n.start([]loop.Source{src}, nil)
		time.Sleep(time.Minute)
		stopped, started := n.rt.Journal().Pod("old").Of(critest.StopContainer), n.rt.Journal().Pod("new").Of(critest.RunPodSandbox)
		if len(stopped) == 0 || len(started) == 0 || started[0].Start.Before(stopped[0].Start.Add(3*time.Second)) {
			t.Errorf("stopped\n%v\nand started\n%v", stopped, started)
		}
	})
}

// E1: what an earlier agent has left cannot be stopped for a while. It is tried again
// with pauses, not at once after each failure, and it is stopped in the end.
func TestE1_OrphanIsNotStoppedInAHotLoop(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, pod("file", "web", "u", forever))
		_, err := n.rt.Inject(critest.Fault{
			Match: critest.Match{Method: critest.StopContainer}, Times: 1000, Err: status.Error(codes.Unknown, "no"),
		})
		if err != nil {
			t.Fatal(err)
		}
		before := len(n.rt.Journal())
		src := loop.NewPush("file")
		n.start([]loop.Source{src}, nil)
		set(t, src)
		time.Sleep(time.Minute)
		if tries := n.rt.Journal().After(before).Count(critest.StopContainer); tries < 2 || tries > 120 {
			t.Errorf("tried %d times in a minute", tries)
		}
		time.Sleep(100 * time.Hour)
		if left := n.rt.Journal().Pod("u").Of(critest.RemovePodSandbox); len(left) == 0 {
			t.Error("it is not stopped and removed")
		}
	})
}
