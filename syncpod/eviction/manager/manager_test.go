package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/eviction/manager"
)

// agent is an agent and its node.
type agent struct {
	mu        sync.Mutex
	pods      []manager.Pod
	uses      map[types.UID]uint64
	node      stats.Node
	nodeErr   error
	podsErr   error
	takes     time.Duration // until a pod has ended
	fails     error
	ending    int
	evicted   []types.UID
	reclaimed []eviction.Reclaim
	onReclaim func()
	events    []string
	overlap   bool
}

func (a *agent) Running() []manager.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.pods)
}

func (a *agent) Find(uid types.UID) (*v1.Pod, bool) {
	for _, p := range a.Running() {
		if p.Pod.UID == uid {
			return p.Pod, false
		}
	}
	return nil, true
}

func (a *agent) Evict(ctx context.Context, e eviction.Eviction) error {
	a.mu.Lock()
	if a.fails != nil {
		defer a.mu.Unlock()
		return a.fails
	}
	a.ending++
	a.overlap = a.overlap || a.ending > 1
	a.pods = slices.DeleteFunc(slices.Clone(a.pods), func(p manager.Pod) bool { return p.Pod.UID == e.Pod.UID })
	a.mu.Unlock()
	select {
	case <-time.After(a.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ending--
	a.evicted = append(a.evicted, e.Pod.UID)
	return nil
}

func (a *agent) CleanedUp(types.UID) bool { return true }

func (a *agent) Reclaim(_ context.Context, what eviction.Reclaim) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reclaimed = append(a.reclaimed, what)
	if a.onReclaim != nil {
		a.onReclaim()
	}
	return errors.New("not all of it")
}

func (a *agent) Warn(about *v1.Pod, reason, message string, _ map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := "node"
	if about != nil {
		name = about.Name
	}
	a.events = append(a.events, name+" "+reason+": "+message)
}

func (a *agent) ReadNode(context.Context) (stats.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.node
	if n.Memory != nil {
		m := *n.Memory
		m.Time, n.Memory = time.Now(), &m
	}
	return n, a.nodeErr
}

func (a *agent) Read(_ context.Context, pods []*runtime.PodStatus) (stats.Stats, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.podsErr != nil {
		return stats.Stats{}, a.podsErr
	}
	var s stats.Stats
	for _, p := range pods {
		use := a.uses[p.UID]
		s.Pods = append(s.Pods, stats.Pod{UID: p.UID, Memory: &stats.Memory{WorkingSetBytes: &use}, Containers: []stats.Container{{Name: "app"}}})
	}
	return s, nil
}

func (a *agent) memory(left uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node.Memory = &stats.Memory{AvailableBytes: &left, WorkingSetBytes: new(16<<30 - left)}
}

func newAgent(uids ...string) *agent {
	a := &agent{uses: map[types.UID]uint64{}}
	for i, uid := range uids {
		pod := podtest.Pod(uid, podtest.UID(types.UID(uid)))
		a.pods = append(a.pods, manager.Pod{Pod: pod, Status: &runtime.PodStatus{UID: pod.UID}})
		a.uses[pod.UID] = uint64(len(uids)-i) << 20
	}
	a.memory(8 << 30)
	return a
}

func (a *agent) manager(t *testing.T, c manager.Config) *manager.Manager {
	t.Helper()
	c.Agent, c.Stats = a, a
	return must.Get(manager.New(c))(t)
}

func TestNewRefuses(t *testing.T) {
	a := newAgent()
	for want, c := range map[string]manager.Config{
		"Config.Agent is missing":                        {Stats: a},
		"Config.Stats is missing":                        {Agent: a},
		`Config.State "here" is not an absolute path`:    {Agent: a, Stats: a, State: "here"},
		`Config.PodsRoot "here" is not an absolute path`: {Agent: a, Stats: a, PodsRoot: "here"},
		"Config.Policy: eviction: Policy.Interval":       {Agent: a, Stats: a, Policy: eviction.Policy{Interval: 1}},
	} {
		if _, err := manager.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// No pod is evicted because of a failed measurement.
func TestReadingsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent("a", "b")
		m := a.manager(t, manager.Config{})
		a.node, a.nodeErr = stats.Node{}, errors.New("/proc is gone")
		m.Synchronize(t.Context())
		a.memory(0)
		a.podsErr = errors.New("the runtime is unavailable")
		time.Sleep(10 * time.Second)
		m.Synchronize(t.Context())
		m.Wait()
		if len(a.evicted) > 0 || !strings.Contains(m.Last().Explain("a"), "what it uses could not be read") {
			t.Errorf("evicted %v, want none, and %q in the explanation\n%v", a.evicted, "what it uses could not be read", m.Last())
		}
		a.podsErr = nil
		time.Sleep(10 * time.Second)
		m.Synchronize(t.Context())
		m.Wait()
		if !slices.Equal(a.evicted, []types.UID{"a"}) {
			t.Errorf("evicted %v, want %v\n%v", a.evicted, []types.UID{"a"}, m.Last())
		}
	})
}

// Unused resources are reclaimed first, even if some removals fail. A pod is evicted only if that does not suffice.
func TestReclaimFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := func() *stats.FS {
			return &stats.FS{AvailableBytes: new(uint64(1)), CapacityBytes: new(uint64(100)), Inodes: new(uint64(0)), InodesFree: new(uint64(0)), Device: 1}
		}
		a := newAgent("a", "b")
		m := a.manager(t, manager.Config{})
		a.node.FS = full()
		a.onReclaim = func() {
			if len(a.reclaimed) == 2 {
				a.node.FS.AvailableBytes = new(uint64(50))
			}
		}
		m.Synchronize(t.Context())
		m.Wait()
		if fmt.Sprint(a.reclaimed) != "[dead containers unused images]" || len(a.evicted) > 0 {
			t.Errorf("removed %v, evicted %v", a.reclaimed, a.evicted)
		}
		a.node.FS, a.onReclaim = full(), nil
		time.Sleep(10 * time.Second)
		m.Synchronize(t.Context())
		m.Wait()
		if len(a.reclaimed) != 4 || len(a.evicted) != 1 {
			t.Errorf("removed %v, evicted %v:\n%v", a.reclaimed, a.evicted, m.Last())
		}
	})
}

// A failed eviction is retried, even by the next agent. The eviction of a removed pod is
// forgotten.
func TestEvictionsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, state := newAgent("a", "b"), filepath.Join(t.TempDir(), "evictions")
		m := a.manager(t, manager.Config{State: state})
		a.memory(0)
		a.fails = errors.New("the disk is full")
		m.Synchronize(t.Context())
		m.Wait()
		must.Do(t, os.WriteFile(filepath.Join(state, "gone.json"), []byte(`{"graceSeconds":1}`), 0o600))
		must.Do(t, os.WriteFile(filepath.Join(state, "cut.json"), []byte(`{"graceSec`), 0o600))
		a.memory(8 << 30)
		a.mu.Lock()
		a.fails = nil
		a.mu.Unlock()
		m = a.manager(t, manager.Config{State: state})
		m.Synchronize(t.Context())
		m.Wait()
		left, err := os.ReadDir(state)
		if !slices.Equal(a.evicted, []types.UID{"a"}) || len(left) > 0 || err != nil {
			t.Errorf("evicted %v, left %v, %v", a.evicted, left, err)
		}
		if len(a.events) != 2 {
			t.Errorf("events %q, want each once", a.events)
		}
	})
}

// Random nodes: the available memory changes, readings fail, pods stop slowly. Pods that stop in time are evicted one at a
// time, and none is evicted without a reading that shows pressure.
func TestManagerAtRandom(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			a := newAgent("a", "b", "c", "d", "e", "f")
			a.takes = time.Duration(random.IntN(40)) * time.Second
			m := a.manager(t, manager.Config{})
			for range 40 {
				short := random.IntN(3) == 0
				a.mu.Lock()
				a.nodeErr, a.podsErr, a.node.Memory = nil, nil, nil
				a.mu.Unlock()
				switch {
				case short:
					a.memory(uint64(random.IntN(90)) << 20)
				case random.IntN(3) > 0:
					a.memory(4 << 30)
				}
				unreadable := random.IntN(4) == 0
				if unreadable {
					a.podsErr = errors.New("unavailable")
				}
				before := len(a.Running())
				m.Synchronize(t.Context())
				synctest.Wait()
				if went := before - len(a.Running()); went > 1 || went > 0 && (!short || unreadable) {
					t.Fatalf("seed %d: %d pods go, short %v, unreadable %v:\n%v", seed, went, short, unreadable, m.Last())
				}
				time.Sleep(10 * time.Second)
			}
			m.Wait()
			if a.overlap {
				t.Errorf("seed %d: two pods ended at a time", seed)
			}
		})
	}
}
