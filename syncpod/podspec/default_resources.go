package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// roundUp rounds amounts up to thousandths, the smallest the API stores.
func roundUp(list v1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// requestLimits sets missing requests to the limits.
func requestLimits(r *v1.ResourceRequirements) {
	for name, limit := range r.Limits {
		add(&r.Requests, name, limit)
	}
}

// add sets an amount that is not in the list.
func add(list *v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = q.DeepCopy()
}

// defaultPodResources completes the pod-level resources (KEP-2837), if the pod has any. Limits of huge pages default
// to the sum of the containers' limits. Requests default to the sum of the containers' requests or, if the containers
// request nothing, to the limits.
func defaultPodResources(spec *v1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	roundUp(r.Limits)
	roundUp(r.Requests)
	for name, q := range together(spec, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Limits }) {
		if _, requested := r.Requests[name]; isHugePages(name) && !requested {
			add(&r.Limits, name, q)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	for name, q := range together(spec, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }) {
		if name == v1.ResourceCPU || name == v1.ResourceMemory {
			add(&r.Requests, name, q)
		}
	}
	for name, limit := range r.Limits {
		if isPodLevel(name) {
			add(&r.Requests, name, limit)
		}
	}
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// isPodLevel reports whether a pod as a whole can have the resource.
func isPodLevel(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || isHugePages(name)
}

// together returns the maximum that a pod's containers have at any one time: sidecars keep running, other init
// containers run one by one before the regular ones.
func together(spec *v1.PodSpec, of func(*v1.ResourceRequirements) v1.ResourceList) v1.ResourceList {
	running, most := v1.ResourceList{}, v1.ResourceList{}
	for m := range members(spec) {
		switch {
		case m.kind == ephemeral:
		case m.kind == initial && !m.sidecar():
			once := running.DeepCopy()
			sum(once, of(&m.Resources))
			atLeast(most, once)
		default:
			sum(running, of(&m.Resources))
			atLeast(most, running)
		}
	}
	return most
}

func sum(list, more v1.ResourceList) {
	for name, q := range more {
		total := list[name]
		total.Add(q)
		list[name] = total
	}
}

func atLeast(list, other v1.ResourceList) {
	for name, q := range other {
		if has, ok := list[name]; !ok || has.Cmp(q) < 0 {
			list[name] = q.DeepCopy()
		}
	}
}
