package podworkers

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// countingSyncer does nothing and tells when it was called.
type countingSyncer struct{ calls sync.WaitGroup }

func (s *countingSyncer) SyncPod(context.Context, Work, *runtime.PodStatus) (Result, error) {
	s.calls.Done()
	return Result{}, nil
}

func (s *countingSyncer) SyncTerminatingPod(context.Context, Work, *runtime.PodStatus) error {
	return nil
}

func (s *countingSyncer) SyncTerminatingRuntimePod(context.Context, Work, *runtime.PodStatus) error {
	return nil
}

func (s *countingSyncer) SyncTerminatedPod(context.Context, Work, *runtime.PodStatus) error {
	return nil
}

// BenchmarkSync measures the way of an update through the workers to a Syncer
// that does nothing, and what a pod that has been synced costs while it is idle,
// the pod itself not counted.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkSync(b, n) })
	}
}

func benchmarkSync(b *testing.B, n int) {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = pod(types.UID(fmt.Sprintf("0b1e5c2a-7f5b-4c6e-9a52-%012d", i)))
	}
	before := inUse()
	var s countingSyncer
	w, err := New(Config{Syncer: &s})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.Run(ctx)
	}()
	round := func(t UpdateType) {
		s.calls.Add(n)
		for _, p := range pods {
			w.UpdatePod(Update{Type: t, Pod: p})
		}
		s.calls.Wait()
	}
	round(Create)
	for b.Loop() {
		round(Changed)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/sync")
	b.ReportMetric(float64(inUse()-before)/float64(n), "B/pod")
	cancel()
	<-over
	goruntime.KeepAlive(pods)
}

// inUse returns the memory of heap and stacks after garbage was collected.
func inUse() int64 {
	var m goruntime.MemStats
	for range 3 {
		goruntime.GC()
	}
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
