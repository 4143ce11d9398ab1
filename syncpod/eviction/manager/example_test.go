package manager_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/eviction/manager"
)

// An exampleAgent has one pod, on a node of 4 GiB that has used them all.
type exampleAgent struct{ pod manager.Pod }

func (a exampleAgent) Running() []manager.Pod                                                  { return []manager.Pod{a.pod} }
func (a exampleAgent) Find(types.UID) (*v1.Pod, bool)                                          { return a.pod.Pod, false }
func (exampleAgent) CleanedUp(types.UID) bool                                                  { return true }
func (exampleAgent) Reclaim(context.Context, eviction.Reclaim) error                           { return nil }
func (exampleAgent) Warn(about *v1.Pod, reason, message string, annotations map[string]string) {}
func (exampleAgent) Evict(_ context.Context, e eviction.Eviction) error {
	fmt.Println(e)
	return nil
}

func (exampleAgent) ReadNode(context.Context) (stats.Node, error) {
	n := stats.Node{Memory: &stats.Memory{AvailableBytes: new(uint64(0)), WorkingSetBytes: new(uint64(4 << 30))}}
	n.Memory.Time = time.Now()
	return n, nil
}

func (exampleAgent) Read(_ context.Context, pods []*runtime.PodStatus) (stats.Stats, error) {
	return stats.Stats{Pods: []stats.Pod{{UID: pods[0].UID, Memory: &stats.Memory{WorkingSetBytes: new(uint64(3 << 30))}}}}, nil
}

func Example() {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "greedy", "1"
	agent := exampleAgent{manager.Pod{Pod: pod, Status: &runtime.PodStatus{UID: pod.UID}}}
	m, err := manager.New(manager.Config{Agent: agent, Stats: agent})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Synchronize(context.Background()) // every 10 s
	m.Wait()
	fmt.Println(m.Last().Conditions[0].Type, m.Last().Conditions[0].Status)
	// Output:
	// evict default/greedy within 1 s: memory.available: The node was low on resource: memory. Threshold quantity: 100Mi, available: 0.
	// MemoryPressure True
}
