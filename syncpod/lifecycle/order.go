package lifecycle

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// target is a live container in a pod that stops.
type target struct {
	status *runtime.ContainerStatus
	// ref names the container in the spec, nil if it is missing there.
	ref *actions.ContainerRef
	// after are the indexes of the targets that stop before this one.
	after []int
}

// targets returns all live containers in a pod, including those that are missing in the spec. pod is nil if its
// spec is unknown.
func targets(pod *v1.Pod, status *runtime.PodStatus) []target {
	var all []target
	var ranks []int
	for i := range status.Containers {
		c := &status.Containers[i]
		if !c.Live() {
			continue
		}
		t := target{status: c}
		if pod != nil {
			if ref, found := actions.FindContainer(pod, c.Name); found {
				t.ref = &ref
			}
		}
		all, ranks = append(all, t), append(ranks, rank(pod, t.ref))
	}
	for i := range all {
		for j := range all {
			if ranks[j] > ranks[i] {
				all[i].after = append(all[i].after, j)
			}
		}
	}
	return all
}

// firstRank is the rank of containers that wait for no other.
const firstRank = 1 << 30

// rank returns a container's rank in the stop order: higher ranks stop first. A sidecar stops
// after all containers that are no sidecars, and after the sidecars that follow it in the spec
// (KEP-753).
func rank(pod *v1.Pod, ref *actions.ContainerRef) int {
	if ref != nil && ref.Kind == actions.InitContainer && runtime.IsSidecar(ref.Spec(pod)) {
		return ref.Index
	}
	return firstRank
}
