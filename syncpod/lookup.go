package syncpod

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// refOf returns the container of that name.
func refOf(pod *v1.Pod, name string) (actions.ContainerRef, bool) {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return actions.ContainerRef{Kind: actions.InitContainer, Index: i, Name: name}, true
		}
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return actions.ContainerRef{Kind: actions.RegularContainer, Index: i, Name: name}, true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return actions.ContainerRef{Kind: actions.EphemeralContainer, Index: i, Name: name}, true
		}
	}
	return actions.ContainerRef{}, false
}

// specOf returns the spec of a container of the pod. That of an ephemeral
// container has the same fields.
func specOf(pod *v1.Pod, ref actions.ContainerRef) *v1.Container {
	switch ref.Kind {
	case actions.InitContainer:
		return &pod.Spec.InitContainers[ref.Index]
	case actions.EphemeralContainer:
		return (*v1.Container)(&pod.Spec.EphemeralContainers[ref.Index].EphemeralContainerCommon)
	}
	return &pod.Spec.Containers[ref.Index]
}

// isSidecar reports whether a container is an init container that runs on beside the
// others. Of a regular one the same policy says nothing but that it restarts.
func isSidecar(ref actions.ContainerRef, c *v1.Container) bool {
	return ref.Kind == actions.InitContainer && c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// instance returns what was observed of a container.
func (w *work) instance(id runtime.ContainerID) *runtime.ContainerStatus {
	at := slices.IndexFunc(w.status.Containers, func(c runtime.ContainerStatus) bool { return c.ID == id })
	if at < 0 {
		return nil
	}
	return &w.status.Containers[at]
}

func sortByName(all []runtime.ContainerStatus) {
	slices.SortFunc(all, func(a, b runtime.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
}
