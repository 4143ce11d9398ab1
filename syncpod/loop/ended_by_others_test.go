package loop_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/source"
)

// T1: another has declared that a pod has failed. It is stopped, and no status takes the end back
// while its container takes its time, nor after that.
func TestT1_EndThatOthersDeclare(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		p := pod("api", "lost", "l", "trap '' TERM; sleep infinity")
		p.Spec.TerminationGracePeriodSeconds = new(int64(20))
		push := source.NewPush()
		a := n.start([]source.Source{push}, nil)
		set(t, push, p)
		time.Sleep(10 * time.Second)
		n.wantRunning(1, "l")
		p = p.DeepCopy()
		p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeLost", Message: "the node was away"}
		set(t, push, p)
		for range 40 {
			time.Sleep(time.Second)
			if s := a.sink.of("l"); s.Phase != v1.PodFailed {
				t.Fatalf("its phase is %s", s.Phase)
			}
		}
		n.wantRunning(0, "l")
		if s := a.sink.of("l"); s.Phase != v1.PodFailed || s.Reason != "NodeLost" {
			t.Errorf("%s %s, want Failed and NodeLost", s.Phase, s.Reason)
		}
	})
}
