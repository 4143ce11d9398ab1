package loop_test

import (
	"maps"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/source"
)

// The stop of a pod takes three inspections: before the stop, after the stop, and after the
// removal. The events of the removal cause no further inspection. The sandbox is stopped once.
func TestStopAsksForNothingTwice(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Times: faults.Always, Delay: 3 * time.Millisecond})
		push := source.NewStaticPush("file")
		n.start([]source.Source{push}, nil)
		set(t, push, pod("file", "web", "web", "trap 'exit 0' TERM; sleep 1000000 & wait"))
		time.Sleep(10 * time.Second)
		before := len(n.Journal())
		set(t, push)
		time.Sleep(10 * time.Second)
		want := map[critest.Method]int{
			critest.PodSandboxStatus: 1, critest.ContainerStatus: 1,
			critest.StopContainer: 1, critest.StopPodSandbox: 1, critest.RemovePodSandbox: 1,
		}
		calls := n.Journal().After(before)
		got := calls.Counts()
		lists := max(got[critest.ListPodSandbox], got[critest.ListContainers])
		delete(got, critest.ListPodSandbox)
		delete(got, critest.ListContainers)
		if lists != 3 || !maps.Equal(got, want) {
			t.Errorf("it took %d lists, want 3, and %v, want %v\n%v", lists, got, want, calls)
		}
	})
}

// If an agent does not know whether a sandbox that is not ready was stopped, it stops the sandbox before it
// removes it: the sandbox may still have a network (containerd #5768).
func TestRemovalOfASandboxStopsIt(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		push := source.NewStaticPush("file")
		a := n.start([]source.Source{push}, nil)
		set(t, push, pod("file", "web", "web", "trap 'exit 0' TERM; sleep 1000000 & wait"))
		time.Sleep(10 * time.Second)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemovePodSandbox}, Delay: time.Hour})
		set(t, push)
		time.Sleep(5 * time.Second)
		a.kill()
		before := len(n.Journal())
		push = source.NewStaticPush("file")
		n.start([]source.Source{push}, nil)
		set(t, push)
		time.Sleep(10 * time.Second)
		calls := n.Journal().After(before)
		if got := calls.Of(critest.StopPodSandbox, critest.RemovePodSandbox).Sequence(); len(got) != 2 || calls.Count(critest.StopPodSandbox) != 1 {
			t.Errorf("it called %v, want a stop and a removal\n%v", got, calls)
		}
	})
}
