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

// countingSyncer does nothing, and counts its calls.
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

func (s *countingSyncer) RemovePod(context.Context, Work, *runtime.PodStatus) error { return nil }

// BenchmarkSync measures the time of an update from the workers to a Syncer that does nothing, and the memory of an
// idle pod without the pod itself.
func BenchmarkSync(b *testing.B) {
	warmUp(b)
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkSync(b, n) })
	}
}

// warmUp makes the Go runtime allocate the memory that it allocates only once, such as reused stacks of goroutines.
func warmUp(b *testing.B) {
	r := start(b, podsOf(100))
	for range 100 {
		r.round(Changed)
	}
	r.stop()
}

func podsOf(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = pod(types.UID(fmt.Sprintf("0b1e5c2a-7f5b-4c6e-9a52-%012d", i)))
	}
	return pods
}

func benchmarkSync(b *testing.B, n int) {
	pods := podsOf(n)
	before := inUse()
	r := start(b, pods)
	for b.Loop() {
		r.round(Changed)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/sync")
	b.ReportMetric(float64(inUse()-before)/float64(n), "B/pod")
	r.stop()
	goruntime.KeepAlive(pods)
}

// benchmarked has running Workers and their pods.
type benchmarked struct {
	*Workers
	syncer *countingSyncer
	pods   []*v1.Pod
	stop   func()
}

// start returns Workers that have synced each pod once.
func start(b *testing.B, pods []*v1.Pod) *benchmarked {
	var s countingSyncer
	w, err := New(Config{Syncer: &s})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	r := &benchmarked{w, &s, pods, func() { cancel(); wg.Wait() }}
	r.round(Create)
	return r
}

// round syncs every pod once.
func (r *benchmarked) round(t UpdateType) {
	r.syncer.calls.Add(len(r.pods))
	for _, p := range r.pods {
		_ = r.UpdatePod(Update{Type: t, Pod: p})
	}
	r.syncer.calls.Wait()
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
