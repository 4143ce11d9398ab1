package loop_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// E3: when Run has returned the runtime is asked for nothing any more, whatever hangs in
// it: the stop of a sandbox goes on for at most Sync.Limits.CleanupTimeout.
func TestE3_RunWaitsForStopsOfSandboxes(t *testing.T) {
	for name, c := range map[string]struct{ stop, cleanup, want time.Duration }{
		"it ends in time": {stop: 13 * time.Second, want: 8 * time.Second},
		"it is cut":       {stop: 3 * time.Minute, want: 10 * time.Second},
		"it is cut early": {stop: 3 * time.Minute, cleanup: 2 * time.Second, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src := source.NewStaticPush("file")
				agent := n.start([]source.Source{src}, func(l *loop.Config) { l.Sync.Limits.CleanupTimeout = c.cleanup })
				set(t, src, pod("file", "web", "u", forever))
				time.Sleep(time.Minute)
				n.inject(critest.Fault{Match: critest.Match{Method: critest.StopPodSandbox}, Times: critest.Always, Delay: c.stop})
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
func TestE3_RunCutsTheRemovalOfWhatIsHalfMade(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.inject(critest.Fault{Match: critest.Match{Method: critest.RunPodSandbox}, Times: critest.Always, Delay: time.Hour})
		src := source.NewStaticPush("file")
		agent := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Second)
		n.inject(critest.Fault{Match: critest.Match{Method: critest.ListPodSandbox}, Times: critest.Always, Delay: time.Hour})
		agent.detachIn(10 * time.Second)
	})
}

func (n *node) wantStopsInFlight(want int) {
	n.Helper()
	synctest.Wait() // for the runtime to notice that its caller has left
	if got := n.Journal().Of(critest.StopPodSandbox).Running(); len(got) != want {
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
