// Package resources computes whether the requests of pods fit on a node. The pod admission, in-place resize and preemption use
// it, so that they count alike.
package resources

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/podresources"
)

// Requested returns the amount of a resource that a pod requests as a whole, with its overhead. A nil pod requests
// nothing.
func Requested(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	if pod == nil {
		return resource.Quantity{}
	}
	total := pod.Spec.Overhead[name].DeepCopy()
	if q := podresources.Total(&pod.Spec, podresources.Requests, name); q != nil {
		total.Add(*q)
	}
	return total
}

// Count returns an amount in the units of schedulers: CPU in thousandths, everything else in units. It saturates.
func Count(name v1.ResourceName, q resource.Quantity) int64 {
	most := *resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)
	switch {
	case q.Cmp(most) > 0:
		return math.MaxInt64
	case name == v1.ResourceCPU:
		return q.MilliValue()
	}
	return q.Value()
}

// A Shortage is a resource that is too scarce: the pods on a node request more of it than the node has.
type Shortage struct {
	Name                      v1.ResourceName
	Requested, Used, Capacity resource.Quantity
}

// Find returns the shortage of a resource if a pod runs next to others, and whether there is one.
func Find(pod *v1.Pod, others []*v1.Pod, name v1.ResourceName, capacity resource.Quantity) (Shortage, bool) {
	s := Shortage{Name: name, Requested: Requested(pod, name), Capacity: capacity}
	for _, other := range others {
		s.Used.Add(Requested(other, name))
	}
	missing := s.Missing()
	return s, missing.Sign() > 0
}

// Missing returns the amount by which the resource is exceeded.
func (s Shortage) Missing() resource.Quantity {
	missing := s.Requested.DeepCopy()
	missing.Add(s.Used)
	missing.Sub(s.Capacity)
	return missing
}

// Message returns the message of a kubelet about the shortage.
func (s Shortage) Message() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		s.Name, Count(s.Name, s.Requested), Count(s.Name, s.Used), Count(s.Name, s.Capacity))
}
