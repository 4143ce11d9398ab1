package syncpod

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
)

// heap returns the size of the live heap in bytes.
func heap() uint64 {
	goruntime.GC()
	goruntime.GC() // objects with finalizers are freed by the second collection
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settle fills the memory of a pod with one container, from the first status to
// the last record.
func settle(m *podMemory, pod *v1.Pod, id string) {
	running := &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: "app", ID: runtime.ContainerID{ID: id}, State: runtime.ContainerRunning}}}
	m.Do(func(p *memory.Pod) {
		p.Restore(memory.Record{})
		p.Containers.NoteRunOnce(pod)
		p.See(&runtime.PodStatus{})
		p.Instances.SetResources(id, runtime.ContainerResources{CPURequest: 100})
		p.Instances.Mark(id, memory.StartRequested)
		p.Containers.Used("app", 0)
		p.Sandbox.SetMade(id)
		p.SetAsideCutStarts(running)
		p.See(running)
		saved, _ := p.Snapshot()
		p.Saved(saved)
	})
	m.reported.deliver(context.Background(), func(*v1.PodStatus) error { return nil })
}

// There are as many memories as there are pods, nearly all of pods that have settled: each
// takes 800 bytes without the status.
func TestMemoryOfASettledPodIsSmall(t *testing.T) {
	const pods, limit = 1000, 1000
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	ids := make([]string, pods)
	for i := range ids {
		ids[i] = fmt.Sprintf("%064d", i)
	}
	known := memories{limits: &memory.Limits{}, pods: make(map[types.UID]*podMemory, pods)}
	before := heap()
	for i := range ids {
		settle(known.of(types.UID(ids[i])), pod, ids[i])
	}
	each := (int64(heap()) - int64(before)) / pods
	t.Logf("%d bytes a pod", each)
	if each > limit {
		t.Errorf("a settled pod takes %d bytes, want %d at most", each, limit)
	}
	goruntime.KeepAlive(known.pods)
}

// Each of many concurrent callers gets the lock once, exclusively. A caller that cancels does not get it.
func TestTurn(t *testing.T) {
	var mine cancelableLock
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mine.lock(over); err != nil {
		t.Errorf("a free lock is not had: %v", err)
	}
	if err := mine.lock(over); err == nil {
		t.Error("the lock is had twice")
	}
	var all sync.WaitGroup
	had := 0
	for range 50 {
		all.Go(func() {
			if err := mine.lock(t.Context()); err != nil {
				t.Error(err)
				return
			}
			had++ // the race detector reports concurrent access
			mine.unlock()
		})
	}
	time.Sleep(time.Millisecond)
	mine.unlock()
	if all.Wait(); had != 50 {
		t.Errorf("%d had the lock, want all 50", had)
	}
}
