package actions

import (
	"github.com/podsync/podsync/runtime"
)

// startEphemeral starts the ephemeral containers that have never been seen. An
// ephemeral container runs once, whatever became of it.
func (d *decision) startEphemeral() {
	for i := range d.Pod.Spec.EphemeralContainers {
		ref := ContainerRef{EphemeralContainer, i, d.Pod.Spec.EphemeralContainers[i].Name}
		if d.Status.Latest(ref.Name) == nil {
			d.start(ref, ContainerMissing)
		}
	}
}

// runRegular brings the regular containers to where they should be, and
// reports whether any of them is to be alive afterwards.
func (d *decision) runRegular() (alive bool) {
	for i := range d.Pod.Spec.Containers {
		c := &d.Pod.Spec.Containers[i]
		ref := ContainerRef{RegularContainer, i, c.Name}
		last := d.Status.Latest(c.Name)
		if last != nil && last.State != runtime.ContainerRunning {
			d.plan.Release = append(d.plan.Release, ref)
		}
		v := d.judge(ref, last)
		d.take(ref, last, v)
		alive = alive || v.alive()
	}
	return alive
}

// verdict is what becomes of one container, and why.
type verdict struct {
	kill, start bool
	why         Reason
}

// alive reports whether the container runs after the plan.
func (v verdict) alive() bool { return v.start || (!v.kill && v.why == StillRunning) }

func (d *decision) take(ref ContainerRef, c *runtime.ContainerStatus, v verdict) {
	switch {
	case v.kill:
		d.kill(ref, c, v.why, v.start)
	case v.start:
		d.start(ref, v.why)
	}
}

// judge decides on a regular container by its current instance.
func (d *decision) judge(ref ContainerRef, c *runtime.ContainerStatus) verdict {
	if c != nil && c.State == runtime.ContainerRunning {
		return d.judgeRunning(ref, c)
	}
	switch {
	case d.Pod.DeletionTimestamp != nil:
		return verdict{why: PodDeleted}
	case c == nil:
		return verdict{start: true, why: ContainerMissing}
	case c.State == runtime.ContainerCreated:
		return verdict{start: true, why: ContainerNeverStarted}
	case c.State == runtime.ContainerUnknown:
		return verdict{kill: true, start: true, why: ContainerStateUnknown}
	}
	again, why := afterExit(d.Pod, specOf(d.Pod, ref), c.ExitCode)
	return verdict{start: again, why: why}
}

// judgeRunning decides on a running container. One whose spec changed runs
// again whatever its restart policy, because what ended was not its doing.
func (d *decision) judgeRunning(ref ContainerRef, c *runtime.ContainerStatus) verdict {
	spec := specOf(d.Pod, ref)
	again := restartPolicy(d.Pod, spec) != "Never"
	probes := d.probes(c)
	switch {
	case runtime.HashContainer(spec) != c.SpecHash:
		return verdict{kill: true, start: true, why: SpecChanged}
	case probes.Liveness == ProbeFailure:
		return verdict{kill: true, start: again, why: LivenessFailed}
	case probes.Startup == ProbeFailure:
		return verdict{kill: true, start: again, why: StartupFailed}
	}
	return verdict{why: StillRunning}
}
