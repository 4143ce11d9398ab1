package resize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/podspec/qos"
	"github.com/podsync/podsync/syncpod/podspec/resources"
)

// Request is one resize, with the node and the other pods on it.
type Request struct {
	// Pod is the desired pod, Allocated the pod with its current allocation. Required.
	Pod, Allocated *v1.Pod
	// ActivePods are the other active pods, with their allocations.
	ActivePods []*v1.Pod
	// Allocatable are the node's resources for pods. A resource that is not in it is unlimited.
	Allocatable v1.ResourceList
}

// Verdict is the decision on a resize.
type Verdict struct {
	// Outcome is whether the resize is accepted.
	Outcome Outcome
	// Message is the reason, for people. It is published.
	Message string
}

// Outcome is a decision's result in one word. All values except Accepted are reasons for the
// condition PodResizePending.
type Outcome string

// The outcomes.
const (
	// Accepted: the requested resources are allocated.
	Accepted Outcome = "Accepted"
	// Deferred: it would fit on the node without other pods, and is retried.
	Deferred Outcome = v1.PodReasonDeferred
	// Infeasible: it can never be allocated on this node.
	Infeasible Outcome = v1.PodReasonInfeasible
)

// Decide decides about a resize, as canResizePod of a kubelet's allocation manager does. A resize that requests no more of any resource is accepted, because nothing has
// to fit. Pod-level resources replace those of the containers (KEP-5419). The quality of service of a pod cannot
// change while it runs. Decide is pure, and modifies nothing. A Request without either pod is Infeasible.
func Decide(r Request) Verdict {
	if r.Pod == nil || r.Allocated == nil {
		return Verdict{Infeasible, "Request.Pod or Request.Allocated is missing"}
	}
	if field, q := negative(r.Pod); field != "" {
		return Verdict{Infeasible, fmt.Sprintf("%s is %s, want 0 or more", field, q.String())}
	}
	if !sameQuality(r) {
		return Verdict{Infeasible, "Resize would change the quality of service of the pod"}
	}
	verdict := Verdict{Outcome: Accepted}
	for _, name := range names() {
		switch v := r.fits(name); {
		case v.Outcome == Infeasible:
			return v
		case v.Outcome == Deferred && verdict.Outcome == Accepted:
			verdict = v
		}
	}
	return verdict
}

func sameQuality(r Request) bool { return qos.FromSpec(&r.Pod.Spec) == qos.FromSpec(&r.Allocated.Spec) }

// fits decides whether there is enough of one resource.
func (r Request) fits(name v1.ResourceName) Verdict {
	capacity, bounded := r.Allocatable[name]
	asked, has := resources.Requested(r.Pod, name), resources.Requested(r.Allocated, name)
	if !bounded || asked.Cmp(has) <= 0 {
		return Verdict{Outcome: Accepted}
	}
	if asked.Cmp(capacity) > 0 {
		return Verdict{Infeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, resources.Count(name, asked), resources.Count(name, capacity))}
	}
	if short, ok := resources.Find(r.Pod, r.ActivePods, name, capacity); ok {
		return Verdict{Deferred, short.Message()}
	}
	return Verdict{Outcome: Accepted}
}

// negative returns a negative amount in the pod, and its field.
func negative(pod *v1.Pod) (field string, q resource.Quantity) {
	all := allocationOf(pod)
	for _, of := range slices.Sorted(maps.Keys(all)) {
		for kind, list := range [2]v1.ResourceList{all[of].Requests, all[of].Limits} {
			for _, name := range names() {
				if q := list[name]; q.Sign() < 0 {
					return fmt.Sprintf("resources.%s[%s] of %s", [2]string{"requests", "limits"}[kind], name, cmp.Or(of, "the pod")), q
				}
			}
		}
	}
	return "", resource.Quantity{}
}
