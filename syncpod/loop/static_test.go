package loop_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// phases is a sink that keeps the phases of a pod as they change.
type phases struct {
	mu  sync.Mutex
	all []v1.PodPhase
}

func (p *phases) SetPodStatus(_ context.Context, _ *v1.Pod, s v1.PodStatus) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 || p.all[len(p.all)-1] != s.Phase {
		p.all = append(p.all, s.Phase)
	}
	return nil
}

func (p *phases) want(t *testing.T, want ...v1.PodPhase) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.all, want) {
		t.Errorf("phases %v, want %v", p.all, want)
	}
}

// The last status of a removed static pod is like that of other pods: it shows the exits of its containers, and never
// a running pod (kubernetes #116484). If a static pod is only stopped because the agent must
// end, its phase does not change, because the next agent starts it again.
func TestT1_StaticPodEnds(t *testing.T) {
	const died = "sleep infinity"
	for name, tc := range map[string]struct {
		script  string
		unmade  bool
		removed v1.PodPhase
	}{
		"it ends by itself":   {script: forever, removed: v1.PodSucceeded},
		"it has to be killed": {script: died, removed: v1.PodFailed},
		"it never ran":        {script: forever, unmade: true, removed: v1.PodFailed},
	} {
		start := func(t *testing.T, n *node) (*agent, *source.Push, *phases) {
			if tc.unmade {
				if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Times: faults.Always, Err: status.Error(codes.Internal, "broken")}); err != nil {
					t.Fatal(err)
				}
			}
			src, told := source.NewStaticPush("file"), &phases{}
			a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Sink = told })
			set(t, src, pod("file", "web", "u", tc.script))
			time.Sleep(time.Minute)
			return a, src, told
		}
		before := []v1.PodPhase{v1.PodPending, v1.PodRunning}
		if tc.unmade {
			before = before[:1]
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				_, src, told := start(t, n)
				set(t, src)
				time.Sleep(time.Minute)
				told.want(t, append(slices.Clone(before), tc.removed)...)
			})
		})
		t.Run(name+", drained", func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				a, _, told := start(t, n)
				if err := a.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				told.want(t, before...)
			})
		})
	}
}

// A static pod whose manifest is removed and restored keeps its UID. Its finished state
// is forgotten: it runs again, even if the agent is killed meanwhile.
func TestM2_ManifestPutBack(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		told := make(chan v1.PodPhase, 100)
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Sink = sinkOf(told) })
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		set(t, src)
		for phase := range told {
			if phase == v1.PodSucceeded {
				break
			}
		}
		a.kill()
		src = source.NewStaticPush("file")
		n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		synctest.Wait()
		n.wantRunning(1, "u")
	})
}

type sinkOf chan v1.PodPhase

func (s sinkOf) SetPodStatus(_ context.Context, _ *v1.Pod, status v1.PodStatus) error {
	s <- status.Phase
	return nil
}
