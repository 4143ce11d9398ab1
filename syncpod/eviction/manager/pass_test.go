package manager

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/eviction"
)

// node is an agent with pods, and what its node has left.
type node struct {
	pods []Pod
	stats.Node

	mu      sync.Mutex
	evicted []string
}

func (n *node) Running() []Pod                                  { return n.pods }
func (n *node) Find(types.UID) (*v1.Pod, bool)                  { return nil, true }
func (n *node) CleanedUp(types.UID) bool                        { return true }
func (n *node) Reclaim(context.Context, eviction.Reclaim) error { return nil }
func (n *node) Warn(*v1.Pod, string, string, map[string]string) {}

func (n *node) Evict(_ context.Context, e eviction.Eviction) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.evicted = append(n.evicted, fmt.Sprintf("%s %s", e.Signal, e.Pod.Name))
	n.pods = slices.DeleteFunc(slices.Clone(n.pods), func(p Pod) bool { return p.Pod.UID == e.Pod.UID })
	return nil
}

func (n *node) ReadNode(context.Context) (stats.Node, error) {
	now := n.Node
	if now.Memory != nil {
		memory := *now.Memory
		memory.Time, now.Memory = time.Now(), &memory
	}
	return now, nil
}

func (n *node) Read(_ context.Context, pods []*runtime.PodStatus) (s stats.Stats, _ error) {
	for _, p := range pods {
		s.Pods = append(s.Pods, stats.Pod{UID: p.UID, Memory: &stats.Memory{WorkingSetBytes: new(uint64(1 << 20))}, Containers: []stats.Container{{Name: "app"}}})
	}
	return s, nil
}

// newNode has pods with this limit, and a Manager whose measurements of a pod named slow... take
// all their time, and find 1 GiB in a pod named ...big.
func newNode(t *testing.T, limit string, names ...string) (*node, *Manager) {
	t.Helper()
	n, root := &node{}, t.TempDir()
	for _, name := range names {
		pod := hostilePod(types.UID(name), limit)
		n.pods = append(n.pods, Pod{pod, &runtime.PodStatus{UID: pod.UID}})
	}
	m := must.Get(New(Config{Agent: n, Stats: n, PodsRoot: root, Policy: eviction.Policy{Hard: map[eviction.Signal]string{
		eviction.MemoryAvailable: "100Mi", eviction.NodeFSAvailable: "10%", eviction.PIDAvailable: "10%",
	}}}))(t)
	m.disk.walk = func(ctx context.Context, dir string, visit func(filetree.Entry) error) error {
		rest, _ := filepath.Rel(root, dir)
		name, _, _ := strings.Cut(rest, "/")
		bytes := uint64(1)
		if strings.HasSuffix(name, "big") {
			bytes = 1 << 30
		}
		if err := visit(filetree.Entry{Bytes: bytes, Links: 1}); err != nil || !strings.HasPrefix(name, "slow") {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return n, m
}

// look runs one pass, and returns its duration and all evicted pods so far.
func (n *node) look(t *testing.T, m *Manager) (took time.Duration, evicted string) {
	t.Helper()
	began := time.Now()
	m.Synchronize(t.Context())
	took = time.Since(began)
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return took, strings.Join(n.evicted, ", ")
}

func slowNames() (names []string) {
	for i := range 12 {
		names = append(names, fmt.Sprintf("slow%02d", i))
	}
	return names
}

// Nodes that are short of one thing.
func noMemory() stats.Node {
	return stats.Node{Memory: &stats.Memory{AvailableBytes: new(uint64(1)), WorkingSetBytes: new(uint64(16 << 30))}}
}

func noProcesses() stats.Node {
	return stats.Node{Rlimit: &stats.Rlimit{NumOfRunningProcesses: new(uint64(1000)), MaxPID: new(uint64(1000))}}
}

func noRoom() stats.Node {
	return stats.Node{FS: &stats.FS{AvailableBytes: new(uint64(1)), CapacityBytes: new(uint64(1 << 40)), Device: 1}}
}

// Pods whose trees use up the time of a measurement do not delay evictions for memory or processes,
// whether the measurement begins in the same pass or has begun before.
func TestSlowTreesDelayNoEvictionForMemory(t *testing.T) {
	for name, short := range map[string]stats.Node{
		"memory.available": noMemory(), "pid.available": noProcesses(),
	} {
		for _, before := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				n, m := newNode(t, "2Mi", slowNames()...)
				if before {
					if took, evicted := n.look(t, m); took > passPatience || evicted != "" {
						t.Errorf("%s: a look took %v, evicted %q", name, took, evicted)
					}
				}
				n.Node = short
				if took, evicted := n.look(t, m); took > 0 || evicted != name+" slow00" {
					t.Errorf("%s, measured before %v: a look took %v, evicted %q", name, before, took, evicted)
				}
				m.Wait()
			})
		}
	}
}

// A pass uses the result of a quick measurement immediately. The result of a slow one is used by a later pass, also during
// memory pressure.
func TestLimitsFollowTheMeasurements(t *testing.T) {
	for want, c := range map[string]struct {
		first string
		node  stats.Node
	}{
		"emptydirfs.limit slow-big":                         {"", stats.Node{}},
		"memory.available other, emptydirfs.limit slow-big": {"memory.available other", noMemory()},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, m := newNode(t, "2Mi", "other", "slow-big")
			n.Node = c.node
			if took, evicted := n.look(t, m); took > passPatience || evicted != c.first {
				t.Errorf("the first look took %v, evicted %q, want %q", took, evicted, c.first)
			}
			time.Sleep(10 * time.Second)
			if took, evicted := n.look(t, m); took > 0 || evicted != want {
				t.Errorf("the second look took %v, evicted %q, want %q", took, evicted, want)
			}
			m.Wait()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n, m := newNode(t, "2Mi", "other", "quick-big")
		if took, evicted := n.look(t, m); took > 0 || evicted != "emptydirfs.limit quick-big" {
			t.Errorf("a look took %v, evicted %q", took, evicted)
		}
		m.Wait()
	})
}

// Under disk pressure, pods are ranked by a new measurement, even if another one is in progress.
func TestEvictionForRoomIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := newNode(t, "2Gi", "slow00", "slow01", "some-big", "slow02")
		n.look(t, m)
		n.Node = noRoom()
		if took, evicted := n.look(t, m); took > readTimeout || evicted != "nodefs.available some-big" {
			t.Errorf("a look took %v, evicted %q", took, evicted)
		}
		m.Wait()
	})
}
