package podresources

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
)

// Requests returns the requests. Pass Requests or Limits to [Total].
func Requests(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }

// Limits returns the limits.
func Limits(r *v1.ResourceRequirements) v1.ResourceList { return r.Limits }

// Total returns the maximum of one resource that the pod uses at any time, nil if no container has it:
// the sum over regular containers and sidecars or, if larger, the sum over an init container and the
// sidecars started before it (KEP-753). The pod's resources as a whole (KEP-2837) replace the sum.
func Total(spec *v1.PodSpec, list func(*v1.ResourceRequirements) v1.ResourceList, name v1.ResourceName) *resource.Quantity {
	if spec.Resources != nil {
		if q, ok := list(spec.Resources)[name]; ok {
			return &q
		}
	}
	var total, sidecars, peak *resource.Quantity
	for i := range spec.Containers {
		total = plus(total, list(&spec.Containers[i].Resources), name)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		during := plus(sidecars, list(&c.Resources), name)
		if runtime.IsSidecar(c) {
			total = plus(total, list(&c.Resources), name)
			sidecars = during
		}
		peak = larger(peak, during)
	}
	return larger(total, peak)
}

// plus returns the sum as a new quantity. A nil q means that no container has named the resource yet.
func plus(q *resource.Quantity, list v1.ResourceList, name v1.ResourceName) *resource.Quantity {
	add, ok := list[name]
	if !ok {
		return q
	}
	sum := add.DeepCopy()
	if q != nil {
		sum.Add(*q)
	}
	return &sum
}

func larger(a, b *resource.Quantity) *resource.Quantity {
	if a == nil || b != nil && b.Cmp(*a) > 0 {
		return b
	}
	return a
}
