package shutdown

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ranked is a pod with a priority and a time to stop, -1 for none.
func ranked(name string, priority int32, grace int64) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name = "ns", name
	pod.Spec.Priority = &priority
	if grace >= 0 {
		pod.Spec.TerminationGracePeriodSeconds = &grace
	}
	return pod
}

// The groups are those of the tables in KEP-2712 and of the kubelet's tests of it.
func TestOrder(t *testing.T) {
	fourGroups := Policy{ByPriority: []Period{{Priority: 100000, GracePeriod: seconds(10)}, {Priority: 10000, GracePeriod: seconds(20)}, {Priority: 1000, GracePeriod: seconds(120)}, {Priority: 0, GracePeriod: seconds(60)}}}
	byClass := func(class string) *v1.Pod {
		pod := ranked("class", 0, 5)
		pod.Spec.Priority, pod.Spec.PriorityClassName = nil, class
		return pod
	}
	over := func(phase v1.PodPhase) *v1.Pod {
		pod := ranked("over", 0, 5)
		pod.Status.Phase = phase
		return pod
	}
	for name, tc := range map[string]struct {
		policy Policy
		pods   []*v1.Pod
		want   string
	}{
		"two periods": {
			Policy{GracePeriod: seconds(30), CriticalGracePeriod: seconds(10)},
			[]*v1.Pod{ranked("critical", 2000000000, 60), ranked("a", 0, 30), ranked("b", 1999999999, 5), ranked("node", 2000001000, 3), ranked("low", -5, -1)},
			"priority 0 and more, gone after 20s: ns/a within 20 s, ns/b within 5 s, ns/low within 20 s; priority 2000000000 and more, gone after 30s: ns/critical within 10 s, ns/node within 3 s",
		},
		"no time but for critical ones": {
			Policy{GracePeriod: seconds(10), CriticalGracePeriod: seconds(10)},
			[]*v1.Pod{ranked("a", 0, 30), ranked("critical", 2000000000, 60)},
			"priority 0 and more, gone after 0s: ns/a within 0 s; priority 2000000000 and more, gone after 10s: ns/critical within 10 s",
		},
		"by priority": {
			fourGroups,
			[]*v1.Pod{ranked("p0", 0, -1), ranked("p999", 999, -1), ranked("p1000", 1000, -1), ranked("p10000", 10000, -1), ranked("p99999", 99999, -1), ranked("most", math.MaxInt32, -1), ranked("least", math.MinInt32, -1)},
			"priority 0 and more, gone after 1m0s: ns/p0 within 60 s, ns/p999 within 60 s, ns/least within 60 s; priority 1000 and more, gone after 3m0s: ns/p1000 within 120 s; " +
				"priority 10000 and more, gone after 3m20s: ns/p10000 within 20 s, ns/p99999 within 20 s; priority 100000 and more, gone after 3m30s: ns/most within 10 s",
		},
		"an empty group takes no time": {
			fourGroups, []*v1.Pod{ranked("p0", 0, -1), ranked("most", 100000, 3)},
			"priority 0 and more, gone after 1m0s: ns/p0 within 60 s; priority 100000 and more, gone after 1m10s: ns/most within 3 s",
		},
		"all below the lowest": {
			Policy{ByPriority: []Period{{Priority: 1000, GracePeriod: seconds(7)}}}, []*v1.Pod{ranked("p0", 0, 30)}, "priority 1000 and more, gone after 7s: ns/p0 within 7 s",
		},
		"classes that no API server has looked up": {
			Policy{GracePeriod: seconds(30), CriticalGracePeriod: seconds(10)},
			[]*v1.Pod{byClass("system-node-critical"), byClass("mine")},
			"priority 0 and more, gone after 20s: ns/class within 5 s; priority 2000000000 and more, gone after 30s: ns/class within 5 s",
		},
		"over":     {fourGroups, []*v1.Pod{over(v1.PodSucceeded), over(v1.PodFailed), nil}, ""},
		"no group": {Policy{}, []*v1.Pod{ranked("a", 5, 30)}, "priority 0 and more, gone after 0s: ns/a within 0 s"},
	} {
		var words []string
		for _, g := range Order(tc.pods, tc.policy) {
			words = append(words, g.String())
		}
		if got := strings.Join(words, "; "); got != tc.want {
			t.Errorf("%s: the order is\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}

// For any pods and policy: every unfinished pod is in one group, none has more
// time than its own grace period or that of its group, priorities and deadlines increase, and no pod gets
// more than the total time.
func TestOrderOfRandomPods(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var p Policy
		for i := range r.IntN(5) {
			p.ByPriority = append(p.ByPriority, Period{Priority: int32(i*100 - r.IntN(100)), GracePeriod: seconds(r.IntN(100))})
		}
		r.Shuffle(len(p.ByPriority), func(i, j int) { p.ByPriority[i], p.ByPriority[j] = p.ByPriority[j], p.ByPriority[i] })
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		var pods []*v1.Pod
		for i := range r.IntN(10) {
			pods = append(pods, ranked(fmt.Sprint(i), int32(r.IntN(600)-200), int64(r.IntN(120)-1)))
		}
		before := slices.Clone(p.ByPriority)
		order := Order(pods, p)
		count, last, highest := 0, time.Duration(0), int32(math.MinInt32)
		for i, g := range order {
			if g.Deadline != last+g.GracePeriod || g.Deadline > p.Total() || i > 0 && g.Priority <= order[i-1].Priority {
				t.Errorf("seed %d: %v, want deadline %v, which is at most %v, and a higher priority than before", seed, order, last+g.GracePeriod, p.Total())
			}
			last = g.Deadline
			top := highest
			for _, s := range g.Stops {
				count++
				if own := s.Pod.Spec.TerminationGracePeriodSeconds; seconds(int(s.GraceSeconds)) > g.GracePeriod || own != nil && s.GraceSeconds > *own {
					t.Errorf("seed %d: pod %s has %d s: %v", seed, s.Pod.Name, s.GraceSeconds, g)
				}
				if *s.Pod.Spec.Priority < highest {
					t.Errorf("seed %d: pod %s stops after one of a higher priority: %v", seed, s.Pod.Name, order)
				}
				top = max(top, *s.Pod.Spec.Priority)
			}
			highest = top
		}
		if count != len(pods) || !slices.Equal(before, p.ByPriority) {
			t.Errorf("seed %d: %d of %d pods are in %v", seed, count, len(pods), order)
		}
	}
}
