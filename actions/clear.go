package actions

import "github.com/podsync/podsync/runtime"

// clearStrays removes instances that have been superseded and may still be alive, so that no
// container ever runs twice: an instance whose create or start call timed out can come alive much
// later (kubernetes #139670).
func (d *decision) clearStrays() {
	for i := range d.Status.Containers {
		c := &d.Status.Containers[i]
		at := find(d.Pod, c.Name)
		if at < 0 || d.isInFlight(c.Name) {
			continue
		}
		if why := d.stray(c, at); why != ReasonNone {
			d.plan.Clear = append(d.plan.Clear, ClearStep{refAt(d.Pod, at), c.ID, why})
		}
	}
}

// stray returns why the container instance at a position is superseded, or ReasonNone if it is not.
func (d *decision) stray(c *runtime.ContainerStatus, at int) Reason {
	switch {
	case !c.Live():
		return ReasonNone
	case d.Status.Latest(c.Name) != c:
		return Superseded
	case !c.In(d.sandbox):
		return ContainerOfOldSandbox
	case c.State == runtime.ContainerCreated && d.starting[at] != ReasonNone:
		return ContainerNeverStarted
	}
	return ReasonNone
}
