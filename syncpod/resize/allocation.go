package resize

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// allocation is a pod's container allocation, by name: requests and limits for the resizable
// resources. The name "" means the pod as a whole, if it has pod-level resources (KEP-2837). Its
// JSON is stored in a file.
type allocation map[string]v1.ResourceRequirements

// allocationOf returns the resources that a pod requests. It shares no memory with the pod.
func allocationOf(pod *v1.Pod) allocation {
	a := allocation{}
	if r := pod.Spec.Resources; r != nil {
		a[wholePod] = v1.ResourceRequirements{Requests: resizable(r.Requests), Limits: resizable(r.Limits)}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			a[list[i].Name] = v1.ResourceRequirements{Requests: resizable(r.Requests), Limits: resizable(r.Limits)}
		}
	}
	return a
}

// reported returns the allocation in a pod's status, which an earlier agent has written. Where the status
// has none, it returns the requested resources.
func reported(pod *v1.Pod) allocation {
	a := allocationOf(pod)
	if r := pod.Status.Resources; r != nil && pod.Spec.Resources != nil {
		a[wholePod] = v1.ResourceRequirements{Requests: resizable(r.Requests), Limits: resizable(r.Limits)}
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if asked, ok := a[list[i].Name]; ok && list[i].Resources != nil {
				a[list[i].Name] = reportedOf(&list[i], asked)
			}
		}
	}
	return a
}

// reportedOf returns the allocation of one container from its status. The status has the limits in effect, which differ
// from the allocated ones during a resize. The allocated limits are known if the request equals the allocated one, or the
// limits equal the requests.
func reportedOf(s *v1.ContainerStatus, asked v1.ResourceRequirements) v1.ResourceRequirements {
	requests := resizable(s.AllocatedResources)
	switch {
	case equalLists(requests, asked.Requests):
		return asked
	case equalLists(asked.Requests, asked.Limits):
		return v1.ResourceRequirements{Requests: requests, Limits: resizable(requests)}
	}
	return v1.ResourceRequirements{Requests: requests, Limits: resizable(s.Resources.Limits)}
}

// wholePod is the pod's key as a whole. No container has this name.
const wholePod = ""

// resizable returns the part of a list that can change while a container runs.
func resizable(list v1.ResourceList) v1.ResourceList {
	var part v1.ResourceList
	for _, name := range names() {
		if q, ok := list[name]; ok {
			if part == nil {
				part = v1.ResourceList{}
			}
			part[name] = q.DeepCopy()
		}
	}
	return part
}

// names returns the resources that can change while a container runs.
func names() []v1.ResourceName { return []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} }

// equal reports whether two allocations have the same amounts.
func (a allocation) equal(b allocation) bool {
	return maps.EqualFunc(a, b, func(x, y v1.ResourceRequirements) bool {
		return equalLists(x.Requests, y.Requests) && equalLists(x.Limits, y.Limits)
	})
}

func equalLists(a, b v1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// applyTo returns the pod with its allocated resources, which is the pod itself if they are equal.
// Unknown containers are allocated their requests. The pod is not modified; the result may share
// parts of it, and is read-only too.
func (a allocation) applyTo(pod *v1.Pod) *v1.Pod {
	if allocationOf(pod).equal(a.of(pod)) {
		return pod
	}
	allocated := *pod
	allocated.Spec.InitContainers = a.apply(pod.Spec.InitContainers)
	allocated.Spec.Containers = a.apply(pod.Spec.Containers)
	if pod.Spec.Resources != nil {
		whole, r := *pod.Spec.Resources, a[wholePod]
		whole.Requests, whole.Limits = replace(whole.Requests, r.Requests), replace(whole.Limits, r.Limits)
		allocated.Spec.Resources = &whole
	}
	return &allocated
}

// of returns the complete allocation of the pod's containers.
func (a allocation) of(pod *v1.Pod) allocation {
	all := allocationOf(pod)
	for name := range all {
		if r, ok := a[name]; ok {
			all[name] = r
		} else if name == wholePod { // the pod had no pod-level resources before
			all[name] = v1.ResourceRequirements{}
		}
	}
	return all
}

func (a allocation) apply(list []v1.Container) []v1.Container {
	all := make([]v1.Container, len(list))
	for i := range list {
		all[i] = list[i]
		if r, ok := a[list[i].Name]; ok {
			all[i].Resources.Requests = replace(list[i].Resources.Requests, r.Requests)
			all[i].Resources.Limits = replace(list[i].Resources.Limits, r.Limits)
		}
	}
	return all
}

// replace returns a copy of the list with other amounts of the resizable resources, nil only if it
// is empty and there was no list.
func replace(list, allocated v1.ResourceList) v1.ResourceList {
	if list == nil && len(allocated) == 0 {
		return nil
	}
	all := v1.ResourceList{}
	for name, q := range list {
		all[name] = q
	}
	for _, name := range names() {
		delete(all, name)
		if q, ok := allocated[name]; ok {
			all[name] = q.DeepCopy()
		}
	}
	return all
}
