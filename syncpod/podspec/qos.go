package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOSClass returns the quality of service of a pod: what its status says, or
// else what follows from its resources. The class of a pod never changes, so
// one that was recorded holds.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return ComputeQOSClass(&pod.Spec)
}

// ComputeQOSClass returns the quality of service that follows from the
// resources of a pod. Only CPU and memory count, and only amounts above zero.
// A pod is Guaranteed if all its containers limit both and the requests of all
// equal the limits of all, BestEffort if none asks for or limits either, and
// else Burstable. Resources of the pod as a whole stand for those of its
// containers (KEP-2837); ephemeral containers have none.
func ComputeQOSClass(spec *v1.PodSpec) v1.PodQOSClass {
	totals := qosTotals{limited: true}
	if r := spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		totals.add(r)
		return totals.class()
	}
	for i := range spec.Containers {
		totals.add(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		totals.add(&spec.InitContainers[i].Resources)
	}
	return totals.class()
}

// qosTotals are sums over a pod's containers, for CPU and memory.
type qosTotals struct {
	requests, limits [2]resource.Quantity
	// limited means that each container limits both.
	limited bool
}

func (t *qosTotals) add(r *v1.ResourceRequirements) {
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

func (t *qosTotals) class() v1.PodQOSClass {
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
