package actions

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

// moveContainers adds a step for each container that keeps running on other CPUs, or with other memory, than it should. One whose
// CPUSet is unknown is updated, because the update changes nothing if the container has it already.
func (d *decision) moveContainers() {
	if len(d.CPUSets) == 0 || d.Pod.DeletionTimestamp != nil {
		return
	}
	for at := range count(d.Pod) {
		ref := refAt(d.Pod, at)
		want, ok := d.CPUSets[ref.Name]
		c := d.current(ref)
		switch {
		case !ok, c == nil, c.State != runtime.ContainerRunning, c.CPUSet != nil && *c.CPUSet == want:
		case d.isInFlight(ref.Name), slices.ContainsFunc(d.plan.Kill, func(k KillStep) bool { return k.ID == c.ID }):
		default:
			d.plan.CPUSets = append(d.plan.CPUSets, CPUSetStep{ref, c.ID, CPUSetChanged, want, d.CPUSetHolds[ref.Name]})
		}
	}
}
