package loop_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/source"
)

// A Push that never got its complete set of pods is not ready, and Health reports what it waits
// for.
func TestPushWithoutSet(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		a := n.start([]source.Source{src}, nil)
		want := func(text string) {
			t.Helper()
			synctest.Wait()
			if h := a.Health(); h.String() != text || h.OK() != (text == "ok") {
				t.Errorf("health is %q, want %q", h, text)
			}
		}
		want("source api: has not delivered yet: Set has not been called")
		update(t, src, pod("", "web", "u", forever))
		time.Sleep(time.Minute)
		want("source api: does not know all of its pods yet: Set has not been called")
		set(t, src, pod("", "web", "u", forever))
		want("ok")
	})
}

// Pods with the same name and different UIDs run concurrently, except static pods, which run one after the
// other.
func TestPushesOfPodsOfOneName(t *testing.T) {
	for name, want := range map[string]int{runtime.ConfigSourceAPI: 1, "queue": 0} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			src := newPush(name)
			n.start([]source.Source{src}, nil)
			set(t, src, pod("", "web", "u", forever), pod("", "web", "v", forever))
			time.Sleep(time.Minute)
			n.wantRunning(1, "u")
			n.wantRunning(want, "v")
			src.Delete("u")
			time.Sleep(time.Minute)
			n.wantRunning(1, "v")
		})
	}
}
