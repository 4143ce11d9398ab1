package actions

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// ContainerKind is which list of the pod's spec a container is in.
type ContainerKind uint8

const (
	// RegularContainer is one of spec.containers.
	RegularContainer ContainerKind = iota
	// InitContainer is one of spec.initContainers; those with the restart policy
	// Always are the sidecars of KEP-753.
	InitContainer
	// EphemeralContainer is one of spec.ephemeralContainers.
	EphemeralContainer
)

// String returns the kind as a person says it.
func (k ContainerKind) String() string {
	switch k {
	case InitContainer:
		return "init container"
	case EphemeralContainer:
		return "ephemeral container"
	}
	return "container"
}

// field returns the name of the list in the pod's spec.
func (k ContainerKind) field() string {
	switch k {
	case InitContainer:
		return "initContainers"
	case EphemeralContainer:
		return "ephemeralContainers"
	}
	return "containers"
}

// ContainerRef names one container of the pod's spec.
type ContainerRef struct {
	Kind ContainerKind
	// Index is the container's place in its list of the spec.
	Index int
	// Name is the container's name, unique over all three lists.
	Name string
}

// String returns the kind and the name, such as `init container "migrate"`.
func (r ContainerRef) String() string { return fmt.Sprintf("%s %q", r.Kind, r.Name) }

// containerCount counts the containers of all three lists.
func containerCount(spec *v1.PodSpec) int {
	return len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers)
}

// refAt returns the at-th container of the three lists taken as one: init,
// regular, ephemeral.
func refAt(spec *v1.PodSpec, at int) ContainerRef {
	if at < len(spec.InitContainers) {
		return ContainerRef{InitContainer, at, spec.InitContainers[at].Name}
	}
	at -= len(spec.InitContainers)
	if at < len(spec.Containers) {
		return ContainerRef{RegularContainer, at, spec.Containers[at].Name}
	}
	at -= len(spec.Containers)
	return ContainerRef{EphemeralContainer, at, spec.EphemeralContainers[at].Name}
}

// specOf returns the spec of a container; that of an ephemeral container has
// the same fields.
func specOf(pod *v1.Pod, ref ContainerRef) *v1.Container {
	switch ref.Kind {
	case InitContainer:
		return &pod.Spec.InitContainers[ref.Index]
	case EphemeralContainer:
		return (*v1.Container)(&pod.Spec.EphemeralContainers[ref.Index].EphemeralContainerCommon)
	}
	return &pod.Spec.Containers[ref.Index]
}
