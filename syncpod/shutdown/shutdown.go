// Package shutdown decides in which order the pods of a node stop before the node shuts down, and how much time
// each pod has, as a kubelet does (KEP-2000, KEP-2712). It is pure; Loop.Shutdown of package loop stops the pods.
// The embedder detects the shutdown, for example with systemd's inhibitor locks.
//
// Pods stop in groups by priority, the lowest first. A group begins when all pods of the previous group have
// stopped, or when the period of that group has passed. Each pod has its own grace period, but not more than
// the period of its group.
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
	// Reason is the status.reason of a pod that was stopped for a shutdown.
	Reason = "Terminated"
	// Message is its status.message.
	Message = "Pod was terminated in response to imminent node shutdown."
	// RejectedReason is the status.reason of a pod that arrived during a shutdown and was not started.
	RejectedReason = "NodeShutdown"
	// RejectedMessage is its status.message.
	RejectedMessage = "Pod was rejected as the node is shutting down."
)

// A Policy has the time for the pods. Set either ByPriority, or the two other fields, which are then translated
// to groups. The zero Policy has no groups, and no time for any pod.
type Policy struct {
	// GracePeriod is the time of the whole shutdown, and CriticalGracePeriod the part of it for pods
	// with a priority of system-cluster-critical or higher: shutdownGracePeriod and
	// shutdownGracePeriodCriticalPods of a KubeletConfiguration.
	GracePeriod, CriticalGracePeriod time.Duration
	// ByPriority are the groups, in any order: shutdownGracePeriodByPodPriority.
	ByPriority []Period
}

// A Period is the time of one group. The group has the pods whose priority is at least Priority, and lower than that
// of the next group. Pods with a lower priority than all groups belong to the lowest group.
type Period struct {
	Priority    int32
	GracePeriod time.Duration
}

// Priorities of the two classes that every cluster has.
const (
	clusterCritical = 2_000_000_000
	nodeCritical    = clusterCritical + 1000
)

// Validate returns an error that names the invalid field.
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

// Total is the longest duration of a shutdown, by which an inhibitor must delay it.
func (p Policy) Total() time.Duration {
	var total time.Duration
	for _, g := range p.periods() {
		total += g.GracePeriod
	}
	return total
}

// periods returns the groups, the lowest first.
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

// A Group is a set of pods that stop together.
type Group struct {
	Period
	// Deadline is the time by which all of them must have stopped, from the beginning of the shutdown.
	Deadline time.Duration
	// Stops are in the order of the pods.
	Stops []Stop
}

// A Stop is a pod and its time to stop.
type Stop struct {
	Pod          *v1.Pod
	GraceSeconds int64
}

// String returns the group as one line.
func (g Group) String() string {
	var pods []string
	for _, s := range g.Stops {
		pods = append(pods, fmt.Sprintf("%s/%s within %d s", s.Pod.Namespace, s.Pod.Name, s.GraceSeconds))
	}
	return fmt.Sprintf("priority %d and more, gone after %v: %s", g.Priority, g.Deadline, strings.Join(pods, ", "))
}

// Order returns the groups in the order in which they stop. It omits groups without a pod, which take no time, and
// pods that have finished. It does not write to the pods. With a Policy without groups all pods are in one group that
// has no time.
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

// groupOf returns the highest group that is not above a priority, or the lowest group.
func groupOf(priority int32, periods []Period) int {
	at := 0
	for i, g := range periods {
		if g.Priority <= priority {
			at = i
		}
	}
	return at
}

// graceOf returns the pod's own grace period, but not more than the period of its group.
func graceOf(pod *v1.Pod, period time.Duration) int64 {
	grace := int64(period / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = min(grace, *own)
	}
	return max(grace, 0)
}

// priorityOf returns the priority of the spec. If it is not set, because no API server has admitted the pod, the
// class counts, if it is one of the two classes that every cluster has.
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
