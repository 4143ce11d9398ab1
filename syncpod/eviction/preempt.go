package eviction

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
	"github.com/podsync/podsync/syncpod/podspec/resources"
)

// The status for a pod that is stopped so that a critical pod fits on the node. The event has the same
// reason.
const (
	PreemptionReason  = "Preempting"
	PreemptionMessage = "Preempted in order to admit critical pod"
)

// Preempt returns the pods that must stop so that a critical pod fits on the node, and whether stopping them frees enough.
// others are the pods that use the node. missing is the amount by which each resource is exceeded if the pod runs next to
// them; v1.ResourcePods counts pods. Pods count with their requests, so callers pass them with their allocated resources.
// For a pod that is not critical Preempt returns false.
//
// As in a kubelet, a critical pod preempts pods that are not critical and pods with a lower priority. Preempt stops as few
// Guaranteed pods as possible, then as few Burstable ones, then as few BestEffort ones. In each class it stops the pods
// whose requests come closest to the missing amounts, and between equal ones those with the smaller memory and CPU
// requests. Preempt modifies nothing.
func Preempt(pod *v1.Pod, others []*v1.Pod, missing v1.ResourceList) (stop []*v1.Pod, ok bool) {
	if !runtime.IsCritical(pod) {
		return nil, false
	}
	classes := map[v1.PodQOSClass][]*v1.Pod{}
	for _, other := range others {
		if other != nil && preemptable(pod, other) {
			class := qos.Class(other)
			classes[class] = append(classes[class], other)
		}
	}
	best, burst, guaranteed := classes[v1.PodQOSBestEffort], classes[v1.PodQOSBurstable], classes[v1.PodQOSGuaranteed]
	need := shortageOf(missing)
	if len(need.without(best, burst, guaranteed)) > 0 {
		return nil, false
	}
	guaranteed = need.without(best, burst).choose(guaranteed)
	burst = need.without(best, guaranteed).choose(burst)
	best = need.without(burst, guaranteed).choose(best)
	return slices.Concat(best, burst, guaranteed), true
}

// preemptable reports whether a critical pod may take another pod's place.
func preemptable(critical, other *v1.Pod) bool {
	if !runtime.IsCritical(other) {
		return true
	}
	return critical.Spec.Priority != nil && other.Spec.Priority != nil && *critical.Spec.Priority > *other.Spec.Priority
}

// A shortage is each resource's missing amount; each amount is positive.
type shortage []lack

// A lack is one resource's missing amount, in resources.Count's unit.
type lack struct {
	name   v1.ResourceName
	amount int64
}

func shortageOf(missing v1.ResourceList) (need shortage) {
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if amount := resources.Count(name, missing[name]); amount > 0 {
			need = append(need, lack{name, amount})
		}
	}
	return need
}

// frees returns how much a pod's end frees.
func frees(pod *v1.Pod, name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	return resources.Count(name, requested(pod, name))
}

// without returns the shortage that is left once the pods have ended.
func (s shortage) without(lists ...[]*v1.Pod) (left shortage) {
	pods := slices.Concat(lists...)
	for _, need := range s {
		for i := 0; i < len(pods) && need.amount > 0; i++ { // requests may be so large that a sum overflows
			need.amount -= max(frees(pods[i], need.name), 0)
		}
		if need.amount > 0 {
			left = append(left, need)
		}
	}
	return left
}

// choose returns the pods to stop so that nothing is missing any more. The caller ensures that all pods together free enough.
func (s shortage) choose(pods []*v1.Pod) (chosen []*v1.Pod) {
	pods = slices.Clone(pods)
	for len(s) > 0 && len(pods) > 0 {
		best, distance := 0, s.distance(pods[0])
		for i, pod := range pods[1:] {
			d := s.distance(pod)
			if d < distance || d == distance && isSmaller(pod, pods[best]) {
				best, distance = i+1, d
			}
		}
		chosen = append(chosen, pods[best])
		s = s.without(pods[best : best+1])
		pods = slices.Delete(pods, best, best+1)
	}
	return chosen
}

// distance returns how much shortage remains after a pod's end: the squared fractions, added up, so that all resources
// have the same weight.
func (s shortage) distance(pod *v1.Pod) (sum float64) {
	for _, need := range s {
		if left := float64(need.amount - frees(pod, need.name)); left > 0 {
			sum += left / float64(need.amount) * (left / float64(need.amount))
		}
	}
	return sum
}

// isSmaller reports whether a pod requests less than another: less memory, or as much memory and less CPU.
func isSmaller(pod, other *v1.Pod) bool {
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		if a, b := frees(pod, name), frees(other, name); a != b {
			return a < b
		}
	}
	return false
}
