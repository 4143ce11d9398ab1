package loop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/loop"
)

// has reports whether an event begins with text.
func (r *recorder) has(text string) bool {
	return slices.ContainsFunc(r.all(), func(e string) bool { return strings.HasPrefix(e, text) })
}

// A pod that cannot be looked at is told of, as by a kubelet.
func TestPodThatCannotBeLookedAtIsTold(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, told := loop.NewPush("file"), &recorder{}
		a := n.start([]loop.Source{src}, func(c *loop.Config) { c.Sync.Events = told })
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		fault, err := n.rt.Inject(critest.Fault{
			Match: critest.Match{Method: critest.ContainerStatus}, Times: critest.Always, Err: status.Error(codes.Internal, "broken"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.rt.ExitContainer(n.rt.Journal().Pod("u").Of(critest.StartContainer)[0].ContainerID, critest.Exit{Code: 7}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !told.has("Warning FailedSync error determining status: ") {
			t.Errorf("told %q; %v", told.all(), a.Health())
		}
		fault.Remove()
		time.Sleep(10 * time.Minute)
		if h := a.Health(); !h.OK() {
			t.Errorf("health is %v", h)
		}
	})
}
