package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/stats"
)

// short is a stats source for a node with 16 GiB of memory. The test sets the available memory and the pod usage.
type short struct {
	mu   sync.Mutex
	left uint64
	uses map[string]uint64
}

func (s *short) has(left uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = left
}

func (s *short) ReadNode(context.Context) (stats.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stats.Node{Memory: &stats.Memory{Time: time.Now(), AvailableBytes: new(s.left), WorkingSetBytes: new(16<<30 - s.left)}}, nil
}

func (s *short) Read(_ context.Context, pods []*runtime.PodStatus) (read stats.Stats, err error) {
	for _, p := range pods {
		if used, ok := s.uses[string(p.UID)]; ok {
			read.Pods = append(read.Pods, stats.Pod{UID: p.UID, Memory: &stats.Memory{Time: time.Now(), WorkingSetBytes: &used}})
		}
	}
	return read, nil
}

// condition returns a condition of the Node in the API server.
func (s *site) condition(kind v1.NodeConditionType) v1.NodeCondition {
	s.Helper()
	object := must.Get(s.kube.Tracker().Get(v1.SchemeGroupVersion.WithResource("nodes"), "", "n1"))(s)
	conditions := object.(*v1.Node).Status.Conditions
	if i := slices.IndexFunc(conditions, func(c v1.NodeCondition) bool { return c.Type == kind }); i >= 0 {
		return conditions[i]
	}
	return v1.NodeCondition{}
}

// The node is under memory pressure: the pod that uses most memory is evicted, and the API server sees the eviction and
// the pressure. Under pressure, the node rejects new BestEffort pods.
func TestEviction(t *testing.T) {
	onSite(t, func(s *site) {
		node := &short{left: 8 << 30, uses: map[string]uint64{"uid-changed": 1 << 30, "uid-deleted": 3 << 30, "uid-same": 1 << 20}}
		s.change = func(a *agent) { a.stats = node }
		s.furnish()
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("changed", "deleted", "same")
		if c := s.condition(v1.NodeMemoryPressure); c.Status != v1.ConditionFalse || c.Reason != "KubeletHasSufficientMemory" || c.Message != "kubelet has sufficient memory available" {
			t.Errorf("before: %+v", c)
		}

		node.has(50 << 20)
		s.sleep(11 * time.Second)
		node.has(4 << 30)
		s.sleep(20 * time.Second)
		s.wantRunning("changed", "same")
		evicted := s.pod("deleted").Status
		if evicted.Phase != v1.PodFailed || evicted.Reason != "Evicted" || !strings.HasPrefix(evicted.Message, "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ") {
			t.Errorf("evicted: %s, %s, %s", evicted.Phase, evicted.Reason, evicted.Message)
		}
		if !slices.ContainsFunc(evicted.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue }) {
			t.Errorf("conditions %+v, want %s", evicted.Conditions, v1.DisruptionTarget)
		}
		if c := s.condition(v1.NodeMemoryPressure); c.Status != v1.ConditionTrue || c.Reason != "KubeletHasInsufficientMemory" {
			t.Errorf("under pressure: %+v", c)
		}

		asking := podOf("asking", "registry.test/app:1")
		asking.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}
		s.create(podOf("refused", "registry.test/app:1"), asking)
		s.sleep(20 * time.Second)
		s.wantRunning("asking", "changed", "same")
		if refused := s.pod("refused").Status; refused.Phase != v1.PodFailed || refused.Reason != "Evicted" || refused.Message != "Pod was rejected: The node had condition: [MemoryPressure]. " {
			t.Errorf("refused: %s, %s, %q", refused.Phase, refused.Reason, refused.Message)
		}
		s.sleep(5 * time.Minute)
		if c := s.condition(v1.NodeMemoryPressure); c.Status != v1.ConditionFalse {
			t.Errorf("after: %+v", c)
		}
		s.create(podOf("taken", "registry.test/app:1"))
		s.sleep(20 * time.Second)
		s.wantRunning("asking", "changed", "same", "taken")
	})
}
