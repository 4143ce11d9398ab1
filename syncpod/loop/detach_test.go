package loop_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// E3: after Run has returned, the agent makes no call of the runtime, even if calls hang: the
// stop of a sandbox continues for at most Sync.Limits.CleanupTimeout.
func TestE3_RunWaitsForStopsOfSandboxes(t *testing.T) {
	for name, c := range map[string]struct{ stop, cleanup, want time.Duration }{
		"it ends in time": {stop: 13 * time.Second, want: 8 * time.Second},
		"it is cut":       {stop: 3 * time.Minute, want: 10 * time.Second},
		"it is cut early": {stop: 3 * time.Minute, cleanup: 2 * time.Second, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src := source.NewStaticPush("file")
				agent := n.start([]source.Source{src}, func(l *nodeagent.Config) { l.Sync.Limits.CleanupTimeout = c.cleanup })
				set(t, src, pod("file", "web", "u", forever))
				time.Sleep(time.Minute)
				n.inject(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Delay: c.stop})
				set(t, src)
				time.Sleep(5 * time.Second)
				n.wantStopsInFlight(1)
				agent.detachIn(c.want)
				n.wantStopsInFlight(0)
			})
		})
	}
}

// E3, S1: so is the removal of a sandbox whose creation the end of Run cuts short.
func TestE3_RunCancelsTheRemovalOfAnUnfinishedSandbox(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Delay: time.Hour})
		src := source.NewStaticPush("file")
		agent := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Second)
		n.inject(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Times: faults.Always, Delay: time.Hour})
		agent.detachIn(10 * time.Second)
	})
}

func (n *node) wantStopsInFlight(want int) {
	n.Helper()
	synctest.Wait() // for the runtime to notice that its caller has left
	if got := n.Journal().Of(critest.StopPodSandbox).Where(func(c critest.Call) bool { return !c.Done() }); len(got) != want {
		n.Errorf("%d stops of sandboxes are in flight, want %d\n%v", len(got), want, got)
	}
}

// detachIn ends the context of Run, which is to return after that time.
func (a *agent) detachIn(want time.Duration) {
	a.t.Helper()
	began := time.Now()
	a.cancel()
	<-a.ended
	if took := time.Since(began); took != want {
		a.t.Errorf("Run took %v to return, want %v", took, want)
	}
}

// An agent that ends while a container is being created removes it. The next one does not use its
// number again: the runtime, or a reader of logs, may know it still.
func TestC2_AttemptOfAContainerThatIsNoLongerDesired(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, When: faults.Midway, Delay: 3 * time.Second, IgnoreCancel: true})
		records := syncpod.FileRecords{Dir: t.TempDir()}
		withRecords := func(c *nodeagent.Config) { c.Sync.Parts.Records = records }
		push := source.NewStaticPush("file")
		first := n.start([]source.Source{push}, withRecords)
		set(t, push, pod("file", "web", "web", "sleep 1000000"))
		time.Sleep(2 * time.Second)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Times: faults.Always, Delay: 2 * time.Second})
		first.stop()
		if removed := n.Journal().Count(critest.RemoveContainer); removed != 1 {
			t.Fatalf("%d containers are removed, want 1\n%v", removed, n.Journal())
		}
		push = source.NewStaticPush("file")
		n.start([]source.Source{push}, withRecords)
		set(t, push, pod("file", "web", "web", "sleep 1000000"))
		time.Sleep(10 * time.Second)
		created := n.Journal().Of(critest.CreateContainer)
		if len(created) != 2 || created[0].Attempt >= created[1].Attempt {
			t.Errorf("containers were created as\n%v, want an attempt more", created)
		}
	})
}
