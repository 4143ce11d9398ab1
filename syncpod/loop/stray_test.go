package loop_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// A pod has stopped and cannot be cleaned up yet, when a running container of it is found
// and stopped. The exits of its containers are still known, although the
// runtime has lost them meanwhile.
func TestT2_ExitCodeOutlivesAStray(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		var idle atomic.Bool
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Watch.EventRelist = 10 * time.Second
			c.Sync.Parts.Clean = []syncpod.Cleaner{cleanerFunc(func(context.Context, types.UID) error {
				if !idle.Load() {
					return errors.New("device or resource busy")
				}
				return nil
			})}
		})
		two := once(pod("file", "job", "u", "exit 3"))
		two.Spec.Containers = append(two.Spec.Containers, *two.Spec.Containers[0].DeepCopy())
		two.Spec.Containers[1].Name = "other"
		set(t, src, two)
		time.Sleep(time.Minute)
		started := n.Journal().Pod("u").Of(critest.StartContainer)
		err := n.EditContainer(started.Container("other")[0].ContainerID, func(s *runtimeapi.ContainerStatus) {
			s.State, s.FinishedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, 0
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Remove(started.Container("app")[0].ContainerID); err != nil {
			t.Fatal(err)
		}
		before := len(n.Journal())
		time.Sleep(time.Minute)
		if n.Journal().After(before).Pod("u").Count(critest.StopContainer) == 0 {
			t.Fatal("what runs was not stopped")
		}
		idle.Store(true)
		time.Sleep(time.Minute)
		for _, c := range a.sink.of("u").ContainerStatuses {
			if end := c.State.Terminated; end == nil || c.Name == "app" && end.ExitCode != 3 {
				t.Errorf("the state of container %s is %+v", c.Name, c.State)
			}
		}
	})
}

// A container of a pod is created after the pod has stopped: the container
// never runs, and is removed. The pod is still wanted, so that housekeeping does not remove it.
func TestW6_ContainerThatIsCreatedLate(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, When: faults.Midway, Delay: 8 * time.Second, IgnoreCancel: true})
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Watch.EventRelist = 10 * time.Second })
		set(t, src, pod("file", "web", "u", "sleep 1000000"))
		time.Sleep(2 * time.Second)
		stop := podworkers.StopRequest{Evict: true, Report: &podworkers.StopReport{Reason: "Evicted", Message: "the disk is full"}}
		if err := a.KillPod(t.Context(), "u", stop); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		created, removed := n.Journal().Pod("u").Of(critest.CreateContainer), n.Journal().Pod("u").Count(critest.RemoveContainer)
		if len(created) != 1 || created[0].End.Sub(created[0].Start) < 8*time.Second {
			t.Fatalf("no container was created late\n%v", n.Journal())
		}
		if removed != 1 || a.sink.of("u").Reason != "Evicted" {
			t.Errorf("%d containers are removed, want 1, and the pod is %s\n%v", removed, a.sink.of("u").Reason, n.Journal().Pod("u"))
		}
	})
}
