package actions

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

// finishHooks has the postStart handlers run that were cut short, for containers that run
// and stay (kubernetes #122803). The plan clears an instance that has been replaced: its
// handler does not run.
func (d *decision) finishHooks() {
	for _, id := range d.PostStartPending {
		at := slices.IndexFunc(d.Status.Containers, func(c runtime.ContainerStatus) bool { return c.ID == id })
		if at < 0 || d.touches(id) {
			continue
		}
		c := &d.Status.Containers[at]
		ref, known := FindContainer(d.Pod, c.Name)
		if !known || d.isInFlight(c.Name) || c.State != runtime.ContainerRunning {
			continue
		}
		if hooks := ref.Spec(d.Pod).Lifecycle; hooks != nil && hooks.PostStart != nil {
			d.plan.PostStart = append(d.plan.PostStart, PostStartStep{ref, id})
		}
	}
}

// touches reports whether the plan stops or removes an instance.
func (d *decision) touches(id runtime.ContainerID) bool {
	return slices.ContainsFunc(d.plan.Kill, func(s KillStep) bool { return s.ID == id }) ||
		slices.ContainsFunc(d.plan.Clear, func(s ClearStep) bool { return s.ID == id })
}
