// Package shutdown says in which order the pods of a node stop before it is switched off,
// and how long each has, as a kubelet does (KEP-2000, KEP-2712). It is pure, and does
// nothing: Shutdown of a loop.Loop does, and when the node is about to go is for its
// embedder to hear, of systemd for example.
//
// Pods stop in groups by their priority, the lowest first. A group begins when all pods of
// the one before have stopped, or when its period is over. Each pod has its own time to
// stop, and that of its group at most.
package shutdown

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

const (
	// Reason is that of a pod which was stopped for the shutdown of its node.
	Reason = "Terminated"
	// Message is what such a pod says to people.
	Message = "Pod was terminated in response to imminent node shutdown."
	// RejectedReason is that of a pod which came meanwhile, and was not started.
	RejectedReason = "NodeShutdown"
	// RejectedMessage is what such a pod says to people.
	RejectedMessage = "Pod was rejected as the node is shutting down."
)

// A Policy says how long pods have. Either ByPriority is set or the two others, of
// which it is made otherwise. The zero Policy has no groups, and no time for any pod.
type Policy struct {
	// GracePeriod is the time of the whole shutdown, and CriticalGracePeriod the part of it
	// that is for pods with a priority of system-cluster-critical or more. As
	// shutdownGracePeriod and shutdownGracePeriodCriticalPods of a kubelet.
	GracePeriod, CriticalGracePeriod time.Duration
	// ByPriority are the groups, in any order. As shutdownGracePeriodByPodPriority.
	ByPriority []Period
}

// A Period is the time of a group: of the pods that have its priority or more, and less
// than that of the next group. Pods with less than any belong to the lowest group.
type Period struct {
	Priority    int32
	GracePeriod time.Duration
}

// Priorities of the two classes that every cluster has.
const (
	clusterCritical = 2_000_000_000
	nodeCritical    = clusterCritical + 1000
)

// Validate returns what is wrong with a Policy, with the name of its field.
func (p Policy) Validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"GracePeriod", p.GracePeriod}, {"CriticalGracePeriod", p.CriticalGracePeriod}} {
		if err := check(f.name, f.value); err != nil {
			return err
		}
	}
	switch {
	case p.CriticalGracePeriod > p.GracePeriod:
		return fmt.Errorf("CriticalGracePeriod is %v, and GracePeriod, which it is a part of, %v", p.CriticalGracePeriod, p.GracePeriod)
	case len(p.ByPriority) > 0 && p.GracePeriod > 0:
		return fmt.Errorf("GracePeriod is %v and ByPriority has %d groups: only one of them may be set", p.GracePeriod, len(p.ByPriority))
	}
	known := map[int32]int{}
	for i, g := range p.ByPriority {
		if err := check(fmt.Sprintf("ByPriority[%d].GracePeriod", i), g.GracePeriod); err != nil {
			return err
		}
		if first, twice := known[g.Priority]; twice {
			return fmt.Errorf("ByPriority[%d].Priority is %d, which is that of ByPriority[%d]", i, g.Priority, first)
		}
		known[g.Priority] = i
	}
	return nil
}

func check(name string, d time.Duration) error {
	if d < 0 || d%time.Second != 0 {
		return fmt.Errorf("%s is %v: it must be whole seconds, and not less than none", name, d)
	}
	return nil
}

// Total is how long a shutdown takes at most: what whoever holds it up has to ask for.
func (p Policy) Total() time.Duration {
	var total time.Duration
	for _, g := range p.periods() {
		total += g.GracePeriod
	}
	return total
}

// periods are the groups, the lowest first.
func (p Policy) periods() []Period {
	if len(p.ByPriority) == 0 && p.GracePeriod > 0 {
		return []Period{{0, p.GracePeriod - p.CriticalGracePeriod}, {clusterCritical, p.CriticalGracePeriod}}
	}
	return slices.SortedFunc(slices.Values(p.ByPriority), func(a, b Period) int {
		if a.Priority < b.Priority {
			return -1
		}
		return 1
	})
}

// A Group are pods that stop together.
type Group struct {
	Period
	// Deadline is when all of them are to be gone at the latest, from the beginning of the
	// shutdown on.
	Deadline time.Duration
	// Stops are in the order of the pods.
	Stops []Stop
}

// A Stop is a pod, and how long it has to stop.
type Stop struct {
	Pod          *v1.Pod
	GraceSeconds int64
}

// String is the group in words.
func (g Group) String() string {
	var pods []string
	for _, s := range g.Stops {
		pods = append(pods, fmt.Sprintf("%s/%s within %d s", s.Pod.Namespace, s.Pod.Name, s.GraceSeconds))
	}
	return fmt.Sprintf("priority %d and more, gone after %v: %s", g.Priority, g.Deadline, strings.Join(pods, ", "))
}

// Order puts pods in groups, in which they stop one after the other. Groups without a pod
// take no time, and are left out. Pods that are over belong to none. Pods are only read.
// Of a valid Policy without a group all pods are in one that has no time.
func Order(pods []*v1.Pod, p Policy) []Group {
	periods := p.periods()
	if len(periods) == 0 {
		periods = []Period{{}}
	}
	all := make([]Group, len(periods))
	for _, pod := range pods {
		if pod == nil || runtime.IsTerminal(pod.Status.Phase) {
			continue
		}
		at := groupOf(priorityOf(pod), periods)
		all[at].Stops = append(all[at].Stops, Stop{pod, graceOf(pod, periods[at].GracePeriod)})
	}
	var order []Group
	var deadline time.Duration
	for i, g := range all {
		if len(g.Stops) == 0 {
			continue
		}
		deadline += periods[i].GracePeriod
		g.Period, g.Deadline = periods[i], deadline
		order = append(order, g)
	}
	return order
}

// groupOf returns the last group that is not above a priority, or the lowest.
func groupOf(priority int32, periods []Period) int {
	at := 0
	for i, g := range periods {
		if g.Priority <= priority {
			at = i
		}
	}
	return at
}

// graceOf is the pod's own time, but no more than that of its group.
func graceOf(pod *v1.Pod, period time.Duration) int64 {
	grace := int64(period / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = min(grace, *own)
	}
	return max(grace, 0)
}

// priorityOf is that of the spec. Of a pod that no API server has seen the class says it,
// if it is one of those that every cluster has.
func priorityOf(pod *v1.Pod) int32 {
	switch {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case pod.Spec.PriorityClassName == "system-cluster-critical":
		return clusterCritical
	case pod.Spec.PriorityClassName == "system-node-critical":
		return nodeCritical
	}
	return 0
}
