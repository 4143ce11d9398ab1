package shutdown

import (
	"fmt"
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

// nodeCritical is the priority of the class system-node-critical.
const nodeCritical = clusterCritical + 1000

// A Group is a set of pods that stop together.
type Group struct {
	Period
	// Deadline is the time by which all of them must have stopped, from the beginning of the shutdown.
	Deadline time.Duration
	// Stops are in the pods' order.
	Stops []Stop
}

// A Stop is a pod and the time that it has to stop.
type Stop struct {
	Pod          *v1.Pod
	GraceSeconds int64
}

// String returns the group as one line.
func (g Group) String() string {
	var pods []string
	for _, s := range g.Stops {
		if s.Pod == nil {
			continue
		}
		pods = append(pods, fmt.Sprintf("%s/%s within %d s", s.Pod.Namespace, s.Pod.Name, s.GraceSeconds))
	}
	return fmt.Sprintf("priority %d and more, gone after %v: %s", g.Priority, g.Deadline, strings.Join(pods, ", "))
}

// Order returns the groups in the order in which they stop. It omits groups without a pod, which take no time, and
// pods that have finished. It does not write to the pods. With a Policy without groups all pods are in one group that
// has no time.
func Order(pods []*v1.Pod, p Policy) []Group {
	periods := p.Periods()
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

// graceOf returns the pod's own grace period, but not more than its group's period.
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
