package runtime

import (
	"errors"
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
)

// FindContainer returns the init, regular or ephemeral container with that name. The result shares memory with the
// pod.
func FindContainer(pod *v1.Pod, name string) (*v1.Container, error) {
	if pod == nil {
		return nil, errors.New("the pod is nil")
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], nil
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i].EphemeralContainerCommon; c.Name == name {
			return (*v1.Container)(c), nil
		}
	}
	return nil, fmt.Errorf("the pod has no container %q", name)
}

// AllContainers returns all containers in a pod, and whether they are ephemeral. The containers share memory with the pod.
func AllContainers(pod *v1.Pod) iter.Seq2[*v1.Container, bool] {
	return func(yield func(*v1.Container, bool) bool) {
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i], false) {
					return
				}
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			if !yield((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon), true) {
				return
			}
		}
	}
}
