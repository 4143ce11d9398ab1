package loop_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
	statusstore "github.com/podsync/podsync/syncpod/store"
)

// node is a node, and the parts of an agent that outlive it.
type node struct {
	*testnode.Node
	store *memoryStore
}

func newNode(t *testing.T, c critest.Config) *node {
	return &node{Node: testnode.New(t, c), store: &memoryStore{records: map[types.UID]statusstore.Status{}}}
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, c critest.Config, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newNode(t, c)) })
}

// agent is one run of a Loop.
type agent struct {
	*loop.Loop
	t      testing.TB
	cancel context.CancelFunc
	conn   *critest.Conn
	ended  chan struct{}
	sink   *statuses
}

// start starts an agent with sources. change may change its Config.
func (n *node) start(sources []source.Source, change func(*nodeagent.Config)) *agent {
	n.Helper()
	conn, err := n.Runtime.Dial()
	if err != nil {
		n.Fatal(err)
	}
	seen := &statuses{last: map[types.UID]v1.PodStatus{}}
	c := nodeagent.Config{
		Client: cri.NewClient(conn), Sources: sources, NoLogRotation: true, NoImageGC: true, NoEviction: true, NoOOMEvents: true,
		Sync: syncpod.Config{RuntimeName: "critest", Sink: seen, Node: syncpod.Node{LogsRoot: "/var/log/pods"}, Parts: syncpod.Parts{Logs: noLogs{}}}, Store: n.store,
	}
	if change != nil {
		change(&c)
	}
	l, err := newLoop(c)
	if err != nil {
		n.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.Context())
	a := &agent{Loop: l, t: n, cancel: cancel, conn: conn, ended: make(chan struct{}), sink: seen}
	go func() {
		defer close(a.ended)
		if err := l.Run(ctx); err != nil {
			n.Errorf("Run: %v", err)
		}
	}()
	n.Cleanup(a.stop)
	return a
}

// newLoop returns a Loop with the parts of an agent: probes run, and dead containers are collected.
func newLoop(c nodeagent.Config) (*loop.Loop, error) {
	a, err := nodeagent.New(c)
	if err != nil {
		return nil, err
	}
	return a.Loop, nil
}

// stop detaches the agent.
func (a *agent) stop() {
	a.cancel()
	<-a.ended
	a.conn.Close()
}

// kill ends the agent as a crash would: it cannot say anything more.
func (a *agent) kill() {
	a.conn.Close()
	a.cancel()
	<-a.ended
}

// statuses is a sink.
type statuses struct {
	mu   sync.Mutex
	last map[types.UID]v1.PodStatus
	err  error
}

func (s *statuses) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.last[pod.UID] = status
	return nil
}

func (s *statuses) of(uid types.UID) v1.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[uid]
}

func (s *statuses) phases() map[v1.PodPhase]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := map[v1.PodPhase]int{}
	for _, status := range s.last {
		count[status.Phase]++
	}
	return count
}

// memoryStore is a store that outlives agents.
type memoryStore struct {
	mu      sync.Mutex
	records map[types.UID]statusstore.Status
}

func (s *memoryStore) Load(context.Context) ([]statusstore.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.records), func(a, b statusstore.Status) int {
		if a.UID < b.UID {
			return -1
		}
		return 1
	}), nil
}

func (s *memoryStore) SetStatus(_ context.Context, stored statusstore.Status) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored.Status = *stored.Status.DeepCopy()
	s.records[stored.UID] = stored
	return nil
}

func (s *memoryStore) Delete(_ context.Context, uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, uid)
	return nil
}

func (s *memoryStore) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

type noLogs struct{}

func (noLogs) MakeDirectory(string, string) error               { return nil }
func (noLogs) LastAttempt(string, string) (uint32, bool, error) { return 0, false, nil }

// pod and forever are those of the tests of all agents.
var pod = testnode.Pod

const forever = testnode.Forever

// leave has an agent run pods of one source for a minute, and be killed.
func (n *node) leave(change func(*nodeagent.Config), pods ...*v1.Pod) {
	n.Helper()
	src := newPush(pods[0].Annotations[runtime.AnnotationConfigSource])
	agent := n.start([]source.Source{src}, change)
	set(n, src, pods...)
	time.Sleep(time.Minute)
	agent.kill()
}

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

// api makes a pod one of an API server.
func api(p *v1.Pod) *v1.Pod {
	p.Annotations = map[string]string{runtime.AnnotationConfigSource: runtime.ConfigSourceAPI}
	return p
}

// newPush returns a source of that name.
func newPush(name string) *source.Push {
	if name == runtime.ConfigSourceAPI {
		return source.NewPush()
	}
	return source.NewStaticPush(name)
}

func set(t testing.TB, p *source.Push, pods ...*v1.Pod) {
	t.Helper()
	if err := p.Set(pods...); err != nil {
		t.Fatal(err)
	}
}

var (
	stops  = []critest.Method{critest.StopContainer, critest.StopPodSandbox}
	starts = []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer}
)

// wantRunning checks how many containers of pods run.
func (n *node) wantRunning(want int, uids ...string) {
	n.Helper()
	for _, uid := range uids {
		if got := n.running(uid); got != want {
			n.Errorf("%v: %d containers of pod %s run, want %d", time.Now(), got, uid, want)
		}
	}
}

// counter counts the work on pods.
type counter struct {
	podworkers.NopObserver
	mu   sync.Mutex
	ends map[types.UID]map[podworkers.WorkType]int
}

func newCounter() *counter { return &counter{ends: map[types.UID]map[podworkers.WorkType]int{}} }

func (c *counter) SyncEnded(w podworkers.Work, _ time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends[w.UID] == nil {
		c.ends[w.UID] = map[podworkers.WorkType]int{}
	}
	if err == nil {
		c.ends[w.UID][w.Type]++
	}
}

func (c *counter) of(uid string, w podworkers.WorkType) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ends[types.UID(uid)][w]
}

func conditionOf(status v1.PodStatus, name v1.PodConditionType) *v1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == name {
			return &status.Conditions[i]
		}
	}
	return nil
}
