package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/cluster/internal/gate"
)

// A report collects the fleet's pod states.
type report struct {
	counts func() map[gate.RequestType]int
	out    io.Writer
	began  time.Time

	mu   sync.Mutex
	pods map[types.UID]*podTimes
	// readyLatencies are the times from binding to Ready, deleteLatencies those from the delete request to the removal.
	readyLatencies, deleteLatencies []time.Duration
	// toReady and toGone are the same as metrics.
	toReady, toGone prometheus.Histogram
}

// podTimes has the times at which a pod was first seen bound, Ready and terminating, zero if it was not.
type podTimes struct {
	bound, ready, deleted time.Time
	phase                 v1.PodPhase
}

func newReport(counts func() map[gate.RequestType]int, out io.Writer) *report {
	return &report{
		counts: counts, out: out, began: time.Now(), pods: map[types.UID]*podTimes{},
		toReady: newLatency("podsync_fleet_bind_to_ready_seconds", "Time from the binding of a pod until it is Ready."),
		toGone:  newLatency("podsync_fleet_delete_to_gone_seconds", "Time from the deletion of a pod until its object is gone."),
	}
}

// podChanged records a pod's state, which the fleet's watch of pods reports.
func (r *report) podChanged(pod *v1.Pod, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone {
		r.podDeleted(pod)
		return
	}
	s, now := r.pods[pod.UID], time.Now()
	if s == nil {
		s = &podTimes{bound: now}
		r.pods[pod.UID] = s
	}
	s.phase = pod.Status.Phase
	if s.ready.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue }) {
		s.ready = now
		r.readyLatencies = append(r.readyLatencies, now.Sub(s.bound))
		r.toReady.Observe(now.Sub(s.bound).Seconds())
	}
	if s.deleted.IsZero() && pod.DeletionTimestamp != nil {
		s.deleted = now
	}
}

// podDeleted records that a pod was removed. It is called with mu held.
func (r *report) podDeleted(pod *v1.Pod) {
	if s := r.pods[pod.UID]; s != nil && !s.deleted.IsZero() {
		r.deleteLatencies = append(r.deleteLatencies, time.Since(s.deleted))
		r.toGone.Observe(time.Since(s.deleted).Seconds())
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
		fmt.Fprintf(r.out, "%6.0fs  pods %s  requests %.1f/s  CPU %.1f%%  resident %d MB  goroutines %d\n", time.Since(r.began).Seconds(), printed(r.phases()),
			float64(total(now)-total(before))/took.Seconds(), 100*(used-cpu).Seconds()/took.Seconds(), residentBytes()>>20, runtime.NumGoroutine())
		if failed := failures(now, before); failed != "" {
			fmt.Fprintf(r.out, "         failed requests: %s\n", failed)
		}
		before, at, cpu = now, time.Now(), used
	}
}

// phases counts the fleet's pods.
func (r *report) phases() map[v1.PodPhase]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[v1.PodPhase]int{}
	for _, s := range r.pods {
		counts[s.phase]++
	}
	return counts
}

func printed(phases map[v1.PodPhase]int) string {
	all := 0
	for _, n := range phases {
		all += n
	}
	return fmt.Sprintf("%d: %d running, %d pending, %d succeeded, %d failed", all, phases[v1.PodRunning], phases[v1.PodPending], phases[v1.PodSucceeded], phases[v1.PodFailed])
}

// printSummary prints the latencies and the requests.
func (r *report) printSummary(nodes int) {
	fmt.Fprintf(r.out, "\n%d nodes, %v, pods %s\n", nodes, time.Since(r.began).Round(time.Second), printed(r.phases()))
	r.mu.Lock()
	fmt.Fprintf(r.out, "bind to Ready    %s\ndelete to gone   %s\n", quantiles(r.readyLatencies), quantiles(r.deleteLatencies))
	r.mu.Unlock()
	counts := r.counts()
	verbs := map[string]int{}
	for k, n := range counts {
		verbs[k.Verb] += n
	}
	fmt.Fprintf(r.out, "requests         %d", total(counts))
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		fmt.Fprintf(r.out, ", %s %d", verb, verbs[verb])
	}
	if failed := failures(counts, nil); failed != "" {
		fmt.Fprintf(r.out, "\nfailed           %s", failed)
	}
	fmt.Fprintf(r.out, "\nresident         %d MB\nCPU              %v\n", residentBytes()>>20, processCPU().Round(time.Millisecond))
}

// maxFailures limits the types of failed requests in a line.
const maxFailures = 5

// failures returns the types of requests that failed between two counts, the most frequent first, "" if there are none.
func failures(now, before map[gate.RequestType]int) string {
	failed, all := map[gate.RequestType]int{}, 0
	for t, n := range now {
		if n -= before[t]; n > 0 && t.Failed() {
			failed[t], all = n, all+n
		}
	}
	if all == 0 {
		return ""
	}
	sorted := slices.SortedFunc(maps.Keys(failed), func(a, b gate.RequestType) int {
		return cmp.Or(cmp.Compare(failed[b], failed[a]), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Code, b.Code))
	})
	line := strconv.Itoa(all)
	for i, t := range sorted {
		if i == maxFailures {
			return line + fmt.Sprintf(", and %d other kinds", len(sorted)-maxFailures)
		}
		line += fmt.Sprintf(", %d %s %s %s", failed[t], t.Verb, t.Resource, code(t))
	}
	return line
}

// code returns the status code of requests as a metric of client-go does.
func code(t gate.RequestType) string {
	if t.Code == 0 {
		return "<error>"
	}
	return strconv.Itoa(t.Code)
}

func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(part float64) time.Duration { return all[int(part*float64(len(all)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("%d pods: p50 %v, p90 %v, p99 %v, max %v", len(all), at(0.5), at(0.9), at(0.99), at(1))
}

func total(counts map[gate.RequestType]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
