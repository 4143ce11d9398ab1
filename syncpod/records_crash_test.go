package syncpod_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// B1: the back-off of a crashing container continues in the next agent, and so
// does its growth. It applies only to the same image and resources.
func TestB1_TheNextAgentContinuesTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		agent := recorded(t.TempDir())
		n.restart(agent)
		pod := testPod(containers(ctr("app", "false")))
		n.drive(pod, 2*time.Minute) // starts after 0, 10, 20, 40 and 80 s
		waits := func() syncpod.Result {
			for range 5 {
				synctest.Wait()
				if r := n.sync(pod); !r.NextTry.IsZero() {
					return r
				}
			}
			t.Fatal("it does not wait")
			return syncpod.Result{}
		}
		next := waits().NextTry
		if wait := time.Until(next); wait < 90*time.Second || wait > 160*time.Second {
			t.Fatalf("the next start is in %v, want the rest of 160 s", wait)
		}
		n.restart(agent)
		for range 3 {
			if r := n.sync(pod); !r.NextTry.Equal(next) {
				t.Errorf("the next agent starts it at %v, want %v", r.NextTry, next)
			}
			n.restart(agent)
		}
		before := n.Journal().Of(critest.StartContainer).Count()
		time.Sleep(time.Until(next))
		n.drive(pod, time.Second)
		synctest.Wait()
		if starts := n.Journal().Of(critest.StartContainer).Count() - before; starts != 1 {
			t.Errorf("it was started %d times after the wait, want once", starts)
		}
		began := time.Now()
		if wait := waits().NextTry.Sub(began); wait < 298*time.Second || wait > 300*time.Second {
			t.Errorf("the wait after that is %v, want 300 s", wait)
		}
		n.restart(agent)
		changed := testPod(containers(ctr("app", "false")), func(p *v1.Pod) { p.Spec.Containers[0].Image = "registry.test/other:1" })
		before = n.Journal().Of(critest.PullImage).Count()
		n.sync(changed)
		if n.Journal().Of(critest.PullImage).Count() == before {
			t.Error("with another image it waits, too")
		}
	})
}
