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
)

// heap is what the heap holds, in bytes.
func heap() uint64 {
	goruntime.GC()
	goruntime.GC() // what has a finalizer goes with the second
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settle lets a memory see what one does of a pod of one container, from its first look to
// the last record.
func settle(m *memory, pod *v1.Pod, id string) {
	m.restore(Record{})
	m.noteRunOnce(pod)
	m.see(&runtime.PodStatus{})
	m.setResources(id, runtime.ContainerResources{CPURequest: 100})
	m.mark(id, startRequested)
	m.used("app", 0)
	m.sandbox.setMade(id)
	m.status.deliver(context.Background(), func(*v1.PodStatus) error { return nil })
	running := &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: "app", ID: runtime.ContainerID{ID: id}, State: runtime.ContainerRunning}}}
	m.setAsideCutStarts(running)
	m.see(running)
	m.recorded(first(m.toRecord()))
}

func first[A, B any](a A, _ B) A { return a }

// There are as many memories as there are pods, nearly all of pods that have settled: each
// takes 800 bytes without the status.
func TestMemoryOfASettledPodIsSmall(t *testing.T) {
	const pods, limit = 1000, 1000
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	ids := make([]string, pods)
	for i := range ids {
		ids[i] = fmt.Sprintf("%064d", i)
	}
	known := memories{config: &Config{}, pods: make(map[types.UID]*memory, pods)}
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

// Of many who want the turn each has it once, alone, and who gives up does not have it.
func TestTurn(t *testing.T) {
	var mine turn
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mine.take(over); err != nil {
		t.Errorf("a free turn is not had: %v", err)
	}
	if err := mine.take(over); err == nil {
		t.Error("the turn is had twice")
	}
	var all sync.WaitGroup
	had := 0
	for range 50 {
		all.Go(func() {
			if err := mine.take(t.Context()); err != nil {
				t.Error(err)
				return
			}
			had++ // the race detector tells whether anybody else is at it
			mine.end()
		})
	}
	time.Sleep(time.Millisecond)
	mine.end()
	if all.Wait(); had != 50 {
		t.Errorf("%d had the turn, want all 50", had)
	}
}
