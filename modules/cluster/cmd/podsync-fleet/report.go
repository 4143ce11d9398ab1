package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/fleet"
)

// A report collects the states of the pods of the fleet through its own watch.
type report struct {
	fleet    *fleet.Fleet
	informer cache.SharedIndexInformer
	counts   func() map[string]int
	out      io.Writer
	began    time.Time

	mu   sync.Mutex
	pods map[types.UID]*podTimes
	// readyLatencies are the times from binding to Ready, deleteLatencies those from the delete request to the removal.
	readyLatencies, deleteLatencies []time.Duration
}

// podTimes has the times at which a pod was first seen bound, Ready and terminating, zero if it was not.
type podTimes struct {
	bound, ready, deleted time.Time
	phase                 v1.PodPhase
}

func newReport(kube kubernetes.Interface, f *fleet.Fleet, counts func() map[string]int, out io.Writer) *report {
	return &report{
		fleet: f, informer: informers.NewSharedInformerFactory(kube, 0).Core().V1().Pods().Informer(), counts: counts, out: out,
		began: time.Now(), pods: map[types.UID]*podTimes{},
	}
}

// watch watches pods until ctx ends.
func (r *report) watch(ctx context.Context) {
	_, err := r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { r.podChanged(o.(*v1.Pod)) }, UpdateFunc: func(_, o any) { r.podChanged(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			if pod, ok := o.(*v1.Pod); ok {
				r.podDeleted(pod)
			}
		},
	})
	if err == nil { // fails only if the informer has stopped
		r.informer.RunWithContext(ctx)
	}
}

func (r *report) podChanged(pod *v1.Pod) {
	if pod.Spec.NodeName == "" || r.fleet.Node(pod.Spec.NodeName) == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, now := r.pods[pod.UID], time.Now()
	if s == nil {
		s = &podTimes{bound: now}
		r.pods[pod.UID] = s
	}
	s.phase = pod.Status.Phase
	if s.ready.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue }) {
		s.ready = now
		r.readyLatencies = append(r.readyLatencies, now.Sub(s.bound))
	}
	if s.deleted.IsZero() && pod.DeletionTimestamp != nil {
		s.deleted = now
	}
}

func (r *report) podDeleted(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.pods[pod.UID]; s != nil && !s.deleted.IsZero() {
		r.deleteLatencies = append(r.deleteLatencies, time.Since(s.deleted))
	}
	delete(r.pods, pod.UID)
}

// printLines prints a line at each interval until ctx ends.
func (r *report) printLines(ctx context.Context, every time.Duration) {
	before, at, cpu := r.counts(), time.Now(), processCPU()
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		now, took, used := r.counts(), time.Since(at), processCPU()
		fmt.Fprintf(r.out, "%6.0fs  pods %s  requests %.1f/s  CPU %.1f%%  resident %d MB  goroutines %d\n", time.Since(r.began).Seconds(), r.phases(),
			float64(total(now)-total(before))/took.Seconds(), 100*(used-cpu).Seconds()/took.Seconds(), resident()>>20, runtime.NumGoroutine())
		before, at, cpu = now, time.Now(), used
	}
}

// phases counts the pods of the fleet.
func (r *report) phases() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[v1.PodPhase]int{}
	for _, s := range r.pods {
		counts[s.phase]++
	}
	return fmt.Sprintf("%d: %d running, %d pending, %d succeeded, %d failed", len(r.pods), counts[v1.PodRunning], counts[v1.PodPending], counts[v1.PodSucceeded], counts[v1.PodFailed])
}

// printSummary prints the latencies and the requests.
func (r *report) printSummary() {
	fmt.Fprintf(r.out, "\n%d nodes, %v, pods %s\n", len(r.fleet.Nodes()), time.Since(r.began).Round(time.Second), r.phases())
	r.mu.Lock()
	fmt.Fprintf(r.out, "bind to Ready    %s\ndelete to gone   %s\n", quantiles(r.readyLatencies), quantiles(r.deleteLatencies))
	r.mu.Unlock()
	counts := r.counts()
	fmt.Fprintf(r.out, "requests         %d", total(counts))
	for _, verb := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(r.out, ", %s %d", verb, counts[verb])
	}
	fmt.Fprintf(r.out, "\nresident         %d MB\nCPU              %v\n", resident()>>20, processCPU().Round(time.Millisecond))
}

func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(part float64) time.Duration { return all[int(part*float64(len(all)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("%d pods: p50 %v, p90 %v, p99 %v, max %v", len(all), at(0.5), at(0.9), at(0.99), at(1))
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
