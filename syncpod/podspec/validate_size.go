package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The API bounds a pod by its size alone: 1.5 MB are 50,000 containers. These lists are compared with each other and with
// the runtime's each time that something of the pod changes.
const (
	// maxContainers bounds the containers of all three lists.
	maxContainers = 1024
	maxVolumes    = 4096
	// maxOfContainer limits the mounts, the devices and the ports of one container.
	maxOfContainer = 4096
)

// size checks a pod's list lengths. It reports whether the lists are short enough for the other rules.
func (v *validator) size(pod *v1.Pod) bool {
	before, spec := len(v.errs), &pod.Spec
	if n := len(spec.Containers) + len(spec.InitContainers) + len(spec.EphemeralContainers); n > maxContainers {
		v.add(field.TooMany(field.NewPath("spec", "containers"), n, maxContainers))
		return false
	}
	most := func(at *field.Path, n, limit int) {
		if n > limit {
			v.add(field.TooMany(at, n, limit))
		}
	}
	most(field.NewPath("spec", "volumes"), len(spec.Volumes), maxVolumes)
	for m := range members(spec) {
		most(m.path.Child("volumeMounts"), len(m.VolumeMounts), maxOfContainer)
		most(m.path.Child("volumeDevices"), len(m.VolumeDevices), maxOfContainer)
		most(m.path.Child("ports"), len(m.Ports), maxOfContainer)
	}
	return len(v.errs) == before
}
