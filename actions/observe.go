package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// usualContainers is the number of containers that a pod may have before a decision on it needs memory for their number.
const usualContainers = 16

// observation caches facts about the pod's status that several rules use.
type observation struct {
	// sandbox is the latest sandbox: only it can hold current containers.
	sandbox *runtime.SandboxStatus
	// latest are the current instances for the pod's first containers, by
	// position.
	latest [usualContainers]*runtime.ContainerStatus
	// strays means that an instance may be alive that clearStrays must remove.
	strays bool
}

// observe walks the status once.
func observe(pod *v1.Pod, status *runtime.PodStatus) (o observation) {
	o.sandbox = status.LatestSandbox()
	if status == nil {
		return o
	}
	for i := range status.Containers {
		c := &status.Containers[i]
		at := find(pod, c.Name)
		if at < 0 {
			continue
		}
		if at >= len(o.latest) {
			o.strays = true // not in latest, so clearStrays must check
			continue
		}
		newest, other := c, o.latest[at]
		if other != nil && !c.NewerThan(other) {
			newest, other = other, c
		}
		o.latest[at] = newest
		if other != nil && other.Live() || c.Live() && (c.State != runtime.ContainerRunning || !c.In(o.sandbox)) {
			o.strays = true
		}
	}
	return o
}

// current returns a container's current instance, nil if there is none.
func (d *decision) current(ref ContainerRef) *runtime.ContainerStatus {
	if at := position(d.Pod, ref); at < len(d.latest) {
		return d.latest[at]
	}
	return d.Status.Latest(ref.Name)
}
