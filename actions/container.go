package actions

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// ContainerKind is the list in the pod's spec that a container is in.
type ContainerKind uint8

const (
	// RegularContainer is in spec.containers.
	RegularContainer ContainerKind = iota
	// InitContainer is in spec.initContainers; those with the restart policy
	// Always are the sidecars of KEP-753.
	InitContainer
	// EphemeralContainer is in spec.ephemeralContainers.
	EphemeralContainer
)

// MarshalText returns what String does.
func (k ContainerKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

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

// List returns the list's name in the pod's spec, such as "initContainers".
func (k ContainerKind) List() string {
	switch k {
	case InitContainer:
		return "initContainers"
	case EphemeralContainer:
		return "ephemeralContainers"
	}
	return "containers"
}

// ContainerRef names one container in the pod's spec.
type ContainerRef struct {
	Kind ContainerKind
	// Index is the container's place in its list in the spec.
	Index int
	// Name is the container's name, unique over all three lists.
	Name string
}

// String returns the kind and the name, such as `init container "migrate"`.
func (r ContainerRef) String() string { return fmt.Sprintf("%s %q", r.Kind, r.Name) }

// path returns where the container stands in the pod, such as
// spec.initContainers[1].
func (r ContainerRef) path() string { return fmt.Sprintf("spec.%s[%d]", r.Kind.List(), r.Index) }

func initRef(pod *v1.Pod, i int) ContainerRef {
	return ContainerRef{InitContainer, i, pod.Spec.InitContainers[i].Name}
}

func regularRef(pod *v1.Pod, i int) ContainerRef {
	return ContainerRef{RegularContainer, i, pod.Spec.Containers[i].Name}
}

func ephemeralRef(pod *v1.Pod, i int) ContainerRef {
	return ContainerRef{EphemeralContainer, i, pod.Spec.EphemeralContainers[i].Name}
}

// count returns the number of containers in all three lists.
func count(pod *v1.Pod) int {
	return len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
}

// refAt returns the container at an index into the three lists concatenated: init,
// regular, ephemeral.
func refAt(pod *v1.Pod, at int) ContainerRef {
	inits, regulars := len(pod.Spec.InitContainers), len(pod.Spec.Containers)
	switch {
	case at < inits:
		return initRef(pod, at)
	case at < inits+regulars:
		return regularRef(pod, at-inits)
	}
	return ephemeralRef(pod, at-inits-regulars)
}

// specAt returns the spec of the container that refAt returns.
func specAt(pod *v1.Pod, at int) *v1.Container {
	inits, regulars := len(pod.Spec.InitContainers), len(pod.Spec.Containers)
	switch {
	case at < inits:
		return &pod.Spec.InitContainers[at]
	case at < inits+regulars:
		return &pod.Spec.Containers[at-inits]
	}
	return (*v1.Container)(&pod.Spec.EphemeralContainers[at-inits-regulars].EphemeralContainerCommon)
}

// find returns the index for which refAt returns the first container with the name, -1 if there is none.
func find(pod *v1.Pod, name string) int {
	for at := range count(pod) {
		if specAt(pod, at).Name == name {
			return at
		}
	}
	return -1
}

// FindContainer returns the container with the given name, from any list in the pod. A nil pod has none.
func FindContainer(pod *v1.Pod, name string) (ContainerRef, bool) {
	if pod == nil {
		return ContainerRef{}, false
	}
	at := find(pod, name)
	if at < 0 {
		return ContainerRef{}, false
	}
	return refAt(pod, at), true
}

// position returns the index for which refAt returns ref.
func position(pod *v1.Pod, ref ContainerRef) int {
	switch ref.Kind {
	case InitContainer:
		return ref.Index
	case RegularContainer:
		return len(pod.Spec.InitContainers) + ref.Index
	}
	return len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + ref.Index
}

// Spec returns the container's spec in the pod, nil if the pod does not have it. The spec belongs
// to the pod. For an ephemeral container it is the part that all kinds have in common.
func (r ContainerRef) Spec(pod *v1.Pod) *v1.Container {
	if r.Index < 0 || r.Index >= lengthOf(pod, r.Kind) {
		return nil
	}
	return specAt(pod, position(pod, r))
}

// lengthOf returns how many containers of a kind a pod has.
func lengthOf(pod *v1.Pod, kind ContainerKind) int {
	switch {
	case pod == nil:
		return 0
	case kind == InitContainer:
		return len(pod.Spec.InitContainers)
	case kind == RegularContainer:
		return len(pod.Spec.Containers)
	}
	return len(pod.Spec.EphemeralContainers)
}
