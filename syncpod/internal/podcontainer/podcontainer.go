// Package podcontainer finds a container in the spec of its pod.
package podcontainer

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Find returns the init, regular or ephemeral container of that name. What it returns
// belongs to the pod.
func Find(pod *v1.Pod, name string) (*v1.Container, error) {
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
