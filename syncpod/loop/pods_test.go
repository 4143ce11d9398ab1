package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/source"
)

// While the runtime does not answer, an explanation says so, and since when.
func TestExplainWhileTheRuntimeIsSilent(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "a", "a", forever))
		time.Sleep(time.Minute)
		if text := a.Explain("a"); !strings.HasPrefix(text, "State: ") {
			t.Errorf("explained as %q", text)
		}
		n.Must(n.Restart(faults.Restart{Down: time.Hour}))
		time.Sleep(15 * time.Second)
		if text := a.Explain("a"); !strings.HasPrefix(text, "The runtime has not answered since 2000-01-01T00:01:") || !strings.Contains(text, "for 15s: ") || !strings.Contains(text, "\nState: ") || strings.Count(text, "since") != 1 {
			t.Errorf("explained as %q", text)
		}
	})
}
