package podspec

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podsync/podsync/runtime"
)

// kind is the list of a spec that a container is in.
type kind int

const (
	regular kind = iota
	initial
	ephemeral
)

// member is a container with its position in the spec.
type member struct {
	*v1.Container
	kind kind
	path *field.Path
	// target is an ephemeral container's targetContainerName.
	target string
}

// sidecar reports whether the member is an init container that keeps running.
func (m *member) sidecar() bool {
	return m.kind == initial && runtime.IsSidecar(m.Container)
}

// members returns all containers of a spec, in the order: init, regular, ephemeral.
func members(spec *v1.PodSpec) iter.Seq[*member] {
	return func(yield func(*member) bool) {
		path := field.NewPath("spec")
		for i := range spec.InitContainers {
			if !yield(&member{Container: &spec.InitContainers[i], kind: initial, path: path.Child("initContainers").Index(i)}) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&member{Container: &spec.Containers[i], kind: regular, path: path.Child("containers").Index(i)}) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			e := &spec.EphemeralContainers[i]
			// The two structs differ only in their names, which the compiler checks.
			c := (*v1.Container)(&e.EphemeralContainerCommon)
			if !yield(&member{Container: c, kind: ephemeral, path: path.Child("ephemeralContainers").Index(i), target: e.TargetContainerName}) {
				return
			}
		}
	}
}
