package container

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// The bounds on oom_score_adj for burstable pods. The kernel adds the value to a process's memory
// share in thousandths, and kills the process with the highest sum first.
const (
	oomGuaranteed = -997
	oomBestEffort = 1000
	// oomBurstableMin keeps a burstable pod above a guaranteed one, whose score is
	// at most 1000 + oomGuaranteed.
	oomBurstableMin = 1000 + oomGuaranteed
)

// oomScoreAdj returns the container's oom_score_adj, which determines the order in which the kernel
// kills when memory runs out.
//
// Guaranteed and node-critical pods are killed last, pods without requests first. In between, a
// container with a larger request is killed later. A sidecar is killed no sooner than the first
// regular container, which need it (KEP-753).
func oomScoreAdj(pod *v1.Pod, c *v1.Container, nodeMemory int64) int64 {
	if pod.Spec.PriorityClassName == "system-node-critical" {
		return oomGuaranteed
	}
	switch qos.Class(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	}
	request := memoryRequest(c)
	if isSidecar(pod, c) {
		request = max(request, leastRequest(pod))
	}
	return burstable(request+unassigned(pod), nodeMemory)
}

func burstable(request, nodeMemory int64) int64 {
	if request >= nodeMemory {
		return oomBurstableMin
	}
	return min(max(oomBestEffort-1000*request/nodeMemory, oomBurstableMin), oomBestEffort-1)
}

func memoryRequest(c *v1.Container) int64 { return c.Resources.Requests.Memory().Value() }

func isSidecar(pod *v1.Pod, c *v1.Container) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return runtime.IsSidecar(c)
		}
	}
	return false
}

// leastRequest returns a regular container's smallest memory request.
func leastRequest(pod *v1.Pod) int64 {
	var least int64
	for i := range pod.Spec.Containers {
		if r := memoryRequest(&pod.Spec.Containers[i]); i == 0 || r < least {
			least = r
		}
	}
	return least
}

// unassigned returns one container's part in the pod-level memory request that no container
// requests for itself (KEP-2837).
func unassigned(pod *v1.Pod) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	rest, count := pod.Spec.Resources.Requests.Memory().Value(), int64(0)
	for i := range pod.Spec.Containers {
		rest, count = rest-memoryRequest(&pod.Spec.Containers[i]), count+1
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; runtime.IsSidecar(c) {
			rest, count = rest-memoryRequest(c), count+1
		}
	}
	if rest <= 0 || count == 0 {
		return 0
	}
	return rest / count
}
