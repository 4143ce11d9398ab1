package actions

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

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

// observe walks the status once. names are the pod's container names, by position.
func (d *decision) observe(names []string) {
	d.sandbox = d.Status.LatestSandbox()
	if d.Status == nil {
		return
	}
	for i := range d.Status.Containers {
		c := &d.Status.Containers[i]
		at := slices.Index(names, c.Name)
		switch {
		case at < 0:
		case at >= len(d.latest):
			d.strays = true // not in latest, so clearStrays must check
		default:
			d.see(at, c)
		}
	}
}

// see notes one instance for the container at a position.
func (d *decision) see(at int, c *runtime.ContainerStatus) {
	newest, other := c, d.latest[at]
	if other != nil && !c.NewerThan(other) {
		newest, other = other, c
	}
	d.latest[at] = newest
	if other != nil && other.Live() || c.Live() && (c.State != runtime.ContainerRunning || !c.In(d.sandbox)) {
		d.strays = true
	}
}

// current returns a container's current instance, nil if there is none.
func (d *decision) current(ref ContainerRef) *runtime.ContainerStatus {
	if at := position(d.Pod, ref); at < len(d.latest) {
		return d.latest[at]
	}
	return d.Status.Latest(ref.Name)
}
