package loop_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// inferred is a source that infers its pods, as a folder does. first, if not nil, is delivered before the others,
// incompletely.
type inferred struct {
	*source.Push
	first []*v1.Pod
}

func (s inferred) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	if s.first != nil {
		deliver(source.Snapshot{Pods: s.first, Incomplete: true, Inferred: true})
		time.Sleep(time.Minute)
	}
	return s.Push.Run(ctx, func(snapshot source.Snapshot) {
		snapshot.Inferred = true
		deliver(snapshot)
	})
}

// restartInferred leaves two pods, a and b, and starts an agent with a source that infers its pods.
func (n *node) restartInferred(src inferred, change func(*nodeagent.Config), pods ...*v1.Pod) *agent {
	n.Helper()
	n.leave(nil, pod("file", "a", "a", forever), pod("file", "b", "b", forever))
	set(n, src.Push, pods...)
	a := n.start([]source.Source{src}, change)
	time.Sleep(time.Hour)
	return a
}

// An empty folder stops no pod of an earlier agent, and the health names them.
func TestM9_InferredSourceThatIsEmptyStopsNothing(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		a := n.restartInferred(inferred{Push: source.NewStaticPush("file")}, nil)
		n.wantRunning(1, "a", "b")
		h := a.Health()
		if want := []string{"default/a", "default/b"}; !slices.Equal(h.Sources[0].Unknown, want) || h.OK() || !strings.Contains(h.String(), "default/a, default/b") {
			t.Errorf("health %v, want the unknown pods %v", h, want)
		}
	})
}

// Config.StopUnknown stops them.
func TestM9_StopUnknown(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		a := n.restartInferred(inferred{Push: source.NewStaticPush("file")}, func(c *nodeagent.Config) { c.StopUnknown = true })
		n.wantRunning(0, "a", "b")
		if h := a.Health(); !h.OK() || !slices.Equal(h.Sources[0].Stopped, []string{"default/a", "default/b"}) {
			t.Errorf("health %v, stopped %v", h, h.Sources[0].Stopped)
		}
	})
}

// With another node name all pods have other names: none of them starts beside its other version. Once the source knows
// a name, it is trusted.
func TestM9_InferredSourceWithOtherNamesWaits(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := inferred{Push: source.NewStaticPush("file")}
		a := n.restartInferred(src, nil, pod("file", "a-2", "a2", forever), pod("file", "b-2", "b2", forever))
		n.wantRunning(1, "a", "b")
		n.wantRunning(0, "a2", "b2")
		if text := a.Explain("a2"); !strings.Contains(text, "default/a, default/b") {
			t.Errorf("explained as %q", text)
		}
		set(t, src.Push, pod("file", "a", "a3", forever), pod("file", "b-2", "b2", forever))
		time.Sleep(time.Minute)
		n.wantRunning(0, "a", "b")
		n.wantRunning(1, "a3", "b2")
		set(t, src.Push)
		time.Sleep(time.Minute)
		n.wantRunning(0, "a3", "b2")
	})
}

// A pod that was edited or removed while no agent ran is stopped if the source knows another one.
func TestM9_InferredSourceThatKnowsAPodIsTrusted(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		a := n.restartInferred(inferred{Push: source.NewStaticPush("file")}, nil, pod("file", "a", "edited", forever))
		n.wantRunning(0, "a", "b")
		n.wantRunning(1, "edited")
		if h := a.Health(); !h.OK() {
			t.Errorf("health %v", h)
		}
	})
}

// The pods of a source that is not configured any more are unknown, too.
func TestM9_InferredSourceDoesNotStopThoseOfAnotherName(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.restartInferred(inferred{Push: source.NewStaticPush("folder")}, nil)
		n.wantRunning(1, "a", "b")
	})
}

// New pods start once the unknown ones have been removed by other means.
func TestM9_InferredSourceStartsAfterTheUnknownPods(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		a := n.restartInferred(inferred{Push: source.NewStaticPush("file")}, nil, pod("file", "c", "c", forever))
		n.wantRunning(0, "c")
		for _, sb := range n.Sandboxes() {
			n.Must(n.Remove(sb.GetId()))
		}
		time.Sleep(10 * time.Minute)
		n.wantRunning(1, "c")
		if h := a.Health(); !h.OK() {
			t.Errorf("health %v", h)
		}
	})
}

// Pods of an incomplete snapshot, such as a checkpoint, run; the complete one that knows none of them stops none.
func TestM9_InferredSourceStopsNothingAfterACheckpoint(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := inferred{source.NewStaticPush("file"), []*v1.Pod{pod("file", "a", "a", forever), pod("file", "b", "b", forever)}}
		n.restartInferred(src, nil)
		n.wantRunning(1, "a", "b")
	})
}
