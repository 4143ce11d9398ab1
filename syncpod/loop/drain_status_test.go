package loop_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/source"
)

// The last status of a drained pod is that of the stopped pod, even for a static pod, which the next agent
// starts again.
func TestT6_LastStatusAfterADrain(t *testing.T) {
	for _, from := range []string{runtime.ConfigSourceAPI, "file"} {
		t.Run(from, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src := newPush(from)
				a := n.start([]source.Source{src}, nil)
				set(t, src, pod(from, "web", "u", forever))
				time.Sleep(30 * time.Second)
				if got := a.sink.of("u"); got.Phase != v1.PodRunning {
					t.Fatalf("before the drain it is %s", got.Phase)
				}
				if err := a.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				got := a.sink.of("u")
				for _, c := range got.ContainerStatuses {
					if c.State.Terminated == nil || c.Ready || c.Started != nil && *c.Started {
						t.Errorf("container %s: state %+v, ready %v, started %v; want terminated", c.Name, c.State, c.Ready, *c.Started)
					}
				}
				if c := conditionOf(got, v1.PodReady); c == nil || c.Status != v1.ConditionFalse {
					t.Errorf("the condition Ready is %+v, want False", c)
				}
				t.Logf("%s: %s %s", from, got.Phase, got.Reason)
			})
		})
	}
}
