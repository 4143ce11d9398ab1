package agent_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// node is a node with a runtime in memory.
type node struct{ *testnode.Node }

func newNode(t *testing.T, c critest.Config) *node { return &node{testnode.New(t, c)} }

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, c critest.Config, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newNode(t, c)) })
}

// running is one run of an agent.
type running struct {
	*agent.Agent
	cancel context.CancelFunc
	conn   *critest.Conn
	ended  chan struct{}
	sink   *statuses
}

// start starts an agent with sources, whose parts are off but probes and the collection of dead
// containers. change may change its Config.
func (n *node) start(sources []source.Source, change func(*agent.Config)) *running {
	n.Helper()
	conn, err := n.Runtime.Dial()
	n.Must(err)
	seen := &statuses{last: map[types.UID]v1.PodStatus{}}
	c := agent.Config{
		Client: cri.NewClient(conn), Sources: sources, NoLogRotation: true, NoImageGC: true, NoEviction: true, NoOOMEvents: true,
		Sync: syncpod.Config{RuntimeName: "critest", Sink: seen, Node: syncpod.Node{LogsRoot: filepath.Join(n.TempDir(), "logs")}},
	}
	if change != nil {
		change(&c)
	}
	l, err := agent.New(c)
	n.Must(err)
	ctx, cancel := context.WithCancel(n.Context())
	a := &running{Agent: l, cancel: cancel, conn: conn, ended: make(chan struct{}), sink: seen}
	go func() {
		defer close(a.ended)
		if err := l.Run(ctx); err != nil {
			n.Errorf("Run: %v", err)
		}
	}()
	n.Cleanup(a.stop)
	return a
}

// stop detaches the agent.
func (a *running) stop() {
	a.cancel()
	<-a.ended
	a.conn.Close()
}

// kill ends the agent as a crash would: it cannot say anything more.
func (a *running) kill() {
	a.conn.Close()
	a.cancel()
	<-a.ended
}

// statuses is a sink.
type statuses struct {
	mu     sync.Mutex
	last   map[types.UID]v1.PodStatus
	failed error
}

// fail makes later calls return err.
func (s *statuses) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

func (s *statuses) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.last[pod.UID] = status
	}
	return s.failed
}

func (s *statuses) of(uid types.UID) v1.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[uid]
}

// pod and forever are those of the tests of all agents.
var pod = testnode.Pod

const forever = testnode.Forever

// running returns how many containers of a pod run.
func (n *node) running(uid string) int {
	n.Helper()
	count := 0
	for _, c := range n.Status(types.UID(uid)).Containers {
		if c.State == runtime.ContainerRunning {
			count++
		}
	}
	return count
}

func set(t testing.TB, p *source.Push, pods ...*v1.Pod) {
	t.Helper()
	must.Do(t, p.Set(pods...))
}

// wantRunning checks how many containers of pods run.
func (n *node) wantRunning(want int, uids ...string) {
	n.Helper()
	for _, uid := range uids {
		if got := n.running(uid); got != want {
			n.Errorf("%v: %d containers of pod %s run, want %d", time.Now(), got, uid, want)
		}
	}
}

// instances returns the containers of a pod in the runtime.
func (n *node) instances(uid string) *runtime.PodStatus {
	n.Helper()
	conn := must.Get(n.Runtime.Dial())(n)
	defer conn.Close()
	reader := must.Get(podreader.New(podreader.Config{Runtime: cri.NewClient(conn), RuntimeName: "critest"}))(n)
	status := must.Get(reader.PodStatus(n.Context(), types.UID(uid), nil))(n)
	return status
}

func countFiles(t *testing.T, pattern string) int {
	t.Helper()
	found := must.Get(filepath.Glob(pattern))(t)
	return len(found)
}

// once returns a pod whose containers are not restarted.
func once(p *v1.Pod) *v1.Pod {
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	return p
}
