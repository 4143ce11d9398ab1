package resize

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Allotment is what the containers of a pod are allotted, by name: requests and limits
// of what can change while they run. The name "" stands for the pod as a whole, if it has
// resources as such (KEP-2837). It is what is kept in a file.
type Allotment map[string]v1.ResourceRequirements

// AllotmentOf returns what a pod asks for. It shares nothing with the pod.
func AllotmentOf(pod *v1.Pod) Allotment {
	a := Allotment{}
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

// reported returns what a pod was allotted by its status, which an agent before has made,
// and where that does not say it what it asks for.
func reported(pod *v1.Pod) Allotment {
	a := AllotmentOf(pod)
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

// reportedOf is what one container was allotted by its status. That has the limits in
// force, which differ from those allotted during a resize: where what is asked for is as
// much as was allotted, or has limits that are its requests, it is known better.
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

// wholePod is no name of a container.
const wholePod = ""

// resizable is the part of a list that can change while a container runs.
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

// names are the resources that can change while a container runs.
func names() []v1.ResourceName { return []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} }

// Equal reports whether two allotments are the same amounts.
func (a Allotment) Equal(b Allotment) bool {
	return maps.EqualFunc(a, b, func(x, y v1.ResourceRequirements) bool {
		return equalLists(x.Requests, y.Requests) && equalLists(x.Limits, y.Limits)
	})
}

func equalLists(a, b v1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Apply returns the pod as it is allotted, which is the pod itself if it asks for just
// that. Containers of which nothing is known are allotted what they ask for. The pod is
// not written to; what is returned may share parts of it, and is read only as well.
func (a Allotment) Apply(pod *v1.Pod) *v1.Pod {
	if AllotmentOf(pod).Equal(a.of(pod)) {
		return pod
	}
	allotted := *pod
	allotted.Spec.InitContainers = a.apply(pod.Spec.InitContainers)
	allotted.Spec.Containers = a.apply(pod.Spec.Containers)
	if pod.Spec.Resources != nil {
		whole, r := *pod.Spec.Resources, a[wholePod]
		whole.Requests, whole.Limits = replace(whole.Requests, r.Requests), replace(whole.Limits, r.Limits)
		allotted.Spec.Resources = &whole
	}
	return &allotted
}

// of is the part of an allotment that is about the containers of a pod, complete.
func (a Allotment) of(pod *v1.Pod) Allotment {
	all := AllotmentOf(pod)
	for name := range all {
		if r, ok := a[name]; ok {
			all[name] = r
		} else if name == wholePod { // what it had none of, it asks for
			all[name] = v1.ResourceRequirements{}
		}
	}
	return all
}

func (a Allotment) apply(list []v1.Container) []v1.Container {
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

// replace returns a list with other amounts of what can change, nil only if there is
// nothing in it and was no list.
func replace(list, allotted v1.ResourceList) v1.ResourceList {
	if list == nil && len(allotted) == 0 {
		return nil
	}
	all := v1.ResourceList{}
	for name, q := range list {
		all[name] = q
	}
	for _, name := range names() {
		delete(all, name)
		if q, ok := allotted[name]; ok {
			all[name] = q.DeepCopy()
		}
	}
	return all
}
