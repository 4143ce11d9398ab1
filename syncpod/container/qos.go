package container

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// qosClass returns the quality of service of a pod: what its status says, or
// else what follows from its resources. Only CPU and memory count, and only
// amounts above zero.
func qosClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	totals := newQoSTotals()
	if r := pod.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		totals.add(r)
		return totals.class()
	}
	for i := range pod.Spec.Containers {
		totals.add(&pod.Spec.Containers[i].Resources)
	}
	for i := range pod.Spec.InitContainers {
		totals.add(&pod.Spec.InitContainers[i].Resources)
	}
	return totals.class()
}

// qosTotals are sums over a pod's containers.
type qosTotals struct {
	requests, limits map[v1.ResourceName]*resource.Quantity
	// limited means that each container limits both CPU and memory.
	limited bool
}

func newQoSTotals() *qosTotals {
	return &qosTotals{
		requests: map[v1.ResourceName]*resource.Quantity{},
		limits:   map[v1.ResourceName]*resource.Quantity{},
		limited:  true,
	}
}

func (t *qosTotals) add(r *v1.ResourceRequirements) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		addPositive(t.requests, name, r.Requests[name])
		if !addPositive(t.limits, name, r.Limits[name]) {
			t.limited = false
		}
	}
}

// addPositive reports whether q is above zero, and then adds it.
func addPositive(sums map[v1.ResourceName]*resource.Quantity, name v1.ResourceName, q resource.Quantity) bool {
	if q.Sign() <= 0 {
		return false
	}
	if sums[name] == nil {
		sums[name] = new(resource.Quantity)
	}
	sums[name].Add(q)
	return true
}

func (t *qosTotals) class() v1.PodQOSClass {
	if len(t.requests) == 0 && len(t.limits) == 0 {
		return v1.PodQOSBestEffort
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := t.requests[name], t.limits[name]
		if !t.limited || request == nil || request.Cmp(*limit) != 0 {
			return v1.PodQOSBurstable
		}
	}
	return v1.PodQOSGuaranteed
}
