package actions

import "github.com/podsync/podsync/runtime"

// clearStrays removes instances that have been superseded and may still be alive, so that no
// container ever runs twice: an instance whose create or start call timed out can come alive much
// later (kubernetes #139670).
func (d *decision) clearStrays() {
	for i := range d.Status.Containers {
		c := &d.Status.Containers[i]
		why := d.stray(c)
		if why == ReasonNone {
			continue
		}
		if ref, ok := FindContainer(d.Pod, c.Name); ok && !d.isInFlight(c.Name) {
			d.plan.Clear = append(d.plan.Clear, ClearStep{ref, c.ID, why})
		}
	}
}

// stray returns why the instance is superseded, or ReasonNone if it is not.
func (d *decision) stray(c *runtime.ContainerStatus) Reason {
	switch {
	case !c.Live():
		return ReasonNone
	case d.Status.Latest(c.Name) != c:
		return Superseded
	case !c.In(d.sandbox):
		return ContainerOfOldSandbox
	case c.State == runtime.ContainerCreated && d.starts(c.Name):
		return ContainerNeverStarted
	}
	return ReasonNone
}

func (d *decision) starts(name string) bool {
	for i := range d.plan.Start {
		if d.plan.Start[i].Container.Name == name {
			return true
		}
	}
	return false
}
