// Package qos determines the quality of service of a pod from its resources. It decides the order
// of OOM kills and the pod's cgroup. [Class] is a kubelet's GetPodQOS, and [FromSpec] its ComputePodQOS. Both are pure, and may be called concurrently.
package qos

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Class returns the quality of service of a pod: from its status, or else from its resources. The class of a pod never
// changes, so a recorded class applies. A nil pod is BestEffort.
func Class(pod *v1.Pod) v1.PodQOSClass {
	if pod == nil {
		return v1.PodQOSBestEffort
	}
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return FromSpec(&pod.Spec)
}

// FromSpec returns the quality of service that follows from a pod's resources, whatever its status says. Only CPU
// and memory count, and only amounts above zero. A pod is Guaranteed if all its containers limit both, and all
// requests equal the limits. It is BestEffort if no container has a request or a limit for either. Otherwise it is
// Burstable. Pod-level resources replace those of the containers (KEP-2837); ephemeral containers have none. A nil spec is BestEffort.
func FromSpec(spec *v1.PodSpec) v1.PodQOSClass {
	if spec == nil {
		return v1.PodQOSBestEffort
	}
	t := totals{limited: true}
	if r := spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		t.add(r)
		return t.class()
	}
	for i := range spec.Containers {
		t.add(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		t.add(&spec.InitContainers[i].Resources)
	}
	return t.class()
}

// totals are sums over a pod's containers, for CPU and memory.
type totals struct {
	requests, limits [2]resource.Quantity
	// limited means that each container limits both.
	limited bool
}

func (t *totals) add(r *v1.ResourceRequirements) {
	if len(r.Requests) == 0 && len(r.Limits) == 0 {
		t.limited = false
		return
	}
	for i, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		addPositive(&t.requests[i], r.Requests[name])
		if !addPositive(&t.limits[i], r.Limits[name]) {
			t.limited = false
		}
	}
}

// addPositive reports whether q is above zero, and then adds it.
func addPositive(sum *resource.Quantity, q resource.Quantity) bool {
	if q.Sign() <= 0 {
		return false
	}
	sum.Add(q)
	return true
}

func (t *totals) class() v1.PodQOSClass {
	asked := false
	guaranteed := t.limited
	for i := range t.requests {
		asked = asked || !t.requests[i].IsZero() || !t.limits[i].IsZero()
		guaranteed = guaranteed && !t.requests[i].IsZero() && t.requests[i].Cmp(t.limits[i]) == 0
	}
	switch {
	case !asked:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
