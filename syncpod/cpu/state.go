package cpu

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// A State has the exclusive CPUs of each container, by pod and container name. The zero State has none. A State is a value: With,
// Without and WithoutPod return changed copies.
type State struct {
	Pods map[types.UID]map[string]Set `json:"pods,omitempty"`
}

// Of returns the exclusive CPUs of a container; none if it runs in the shared pool.
func (s State) Of(pod types.UID, container string) Set { return s.Pods[pod][container] }

// With returns the State in which a container has these exclusive CPUs.
func (s State) With(pod types.UID, container string, cpus Set) State {
	if cpus.IsEmpty() {
		return s.Without(pod, container)
	}
	containers := maps.Clone(s.Pods[pod])
	if containers == nil {
		containers = map[string]Set{}
	}
	containers[container] = cpus
	return s.with(pod, containers)
}

// Without returns the State in which a container has no exclusive CPUs. CPUs that another container of the pod reuses stay that one's.
func (s State) Without(pod types.UID, container string) State {
	if _, ok := s.Pods[pod][container]; !ok {
		return s
	}
	containers := maps.Clone(s.Pods[pod])
	delete(containers, container)
	return s.with(pod, containers)
}

// WithoutPod returns the State in which no container of the pod has exclusive CPUs.
func (s State) WithoutPod(pod types.UID) State {
	if _, ok := s.Pods[pod]; !ok {
		return s
	}
	return s.with(pod, nil)
}

func (s State) with(pod types.UID, containers map[string]Set) State {
	pods := maps.Clone(s.Pods)
	if pods == nil {
		pods = map[types.UID]map[string]Set{}
	}
	pods[pod] = containers
	if len(containers) == 0 {
		delete(pods, pod)
	}
	return State{pods}
}

// assigned returns the exclusive CPUs of all containers.
func (s State) assigned() Set {
	var all Set
	for _, containers := range s.Pods {
		for _, cpus := range containers {
			all = all.Union(cpus)
		}
	}
	return all
}
