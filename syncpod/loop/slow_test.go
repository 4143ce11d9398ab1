package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/source"
)

// E7: Health names work that does not return, such as a call of a client without timeouts.
func TestE7_HealthNamesSlowWork(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		gate := &faults.Gate{}
		_, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Hang: gate})
		if err != nil {
			t.Fatal(err)
		}
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(9 * time.Minute)
		if h := a.Health(); !h.OK() {
			t.Errorf("health is %q after 9 min", h)
		}
		time.Sleep(2 * time.Minute)
		if h := a.Health(); h.OK() || !strings.Contains(h.String(), "pod default/web u: fails for 11m0s: SyncPod has not returned since") {
			t.Errorf("health is %q, want the SyncPod that takes too long", h)
		}
		gate.Open()
		time.Sleep(time.Minute)
		if h := a.Health(); !h.OK() {
			t.Errorf("health is %q after the pull", h)
		}
	})
}
