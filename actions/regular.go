package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// startEphemeral starts the ephemeral containers that have no record and are not known to have been
// started. An ephemeral container runs once, whatever its result.
func (d *decision) startEphemeral() {
	for i := range d.Pod.Spec.EphemeralContainers {
		ref := ephemeralRef(d.Pod, i)
		v := verdict{why: DoneEphemeral}
		if d.current(ref) == nil && !slices.Contains(d.Started, ref.Name) {
			v = verdict{start: true, why: ContainerMissing}
		}
		d.take(ref, nil, v)
	}
}

// runRegular brings the regular containers to where they should be, and
// reports whether any is alive then.
func (d *decision) runRegular() (alive bool) {
	for i := range d.Pod.Spec.Containers {
		ref := regularRef(d.Pod, i)
		c := d.current(ref)
		v := d.judgeRegular(ref, c)
		d.take(ref, c, v)
		alive = alive || v.alive()
	}
	return alive
}

// judgeRegular decides on a regular container by its current instance.
func (d *decision) judgeRegular(ref ContainerRef, c *runtime.ContainerStatus) verdict {
	switch {
	case c == nil:
		return d.startUnlessDeleted(ContainerMissing)
	case c.Live() && !c.In(d.sandbox):
		return d.startUnlessDeleted(ContainerOfOldSandbox)
	}
	switch c.State {
	case runtime.ContainerRunning:
		return d.judgeRunning(ref, c)
	case runtime.ContainerCreated:
		return d.startUnlessDeleted(ContainerNeverStarted)
	case runtime.ContainerExited:
		again, why := d.afterExit(ref, c)
		return verdict{start: again, why: why}
	}
	return d.judgeUnknown(ref, c)
}

// judgeUnknown decides on a regular container whose state the runtime does not know: it is stopped
// before it is replaced (kubernetes #69060). It is not replaced if it is known to have started and
// must run only once.
func (d *decision) judgeUnknown(ref ContainerRef, c *runtime.ContainerStatus) verdict {
	v := d.startUnlessDeleted(ContainerStateUnknown)
	v.kill = v.start
	v.start = v.start && (c.StartedAt.IsZero() || d.mayRunAgain(ref.Spec(d.Pod)))
	return v
}

// mayBeAlive reports whether any container instance may have a process.
func (d *decision) mayBeAlive(ref ContainerRef) bool {
	if c := d.current(ref); c.Live() || !d.strays {
		return c.Live()
	}
	for i := range d.Status.Containers {
		if c := &d.Status.Containers[i]; c.Name == ref.Name && c.Live() {
			return true
		}
	}
	return false
}

func (d *decision) startUnlessDeleted(why Reason) verdict {
	if d.Pod.DeletionTimestamp != nil {
		return verdict{why: PodDeleted}
	}
	return verdict{start: true, why: why}
}

// judgeRunning decides on a running regular container. If its image has changed, it is restarted
// whatever its restart policy, because the new image has not run yet.
func (d *decision) judgeRunning(ref ContainerRef, c *runtime.ContainerStatus) verdict {
	spec, probes := ref.Spec(d.Pod), d.Probes[c.ID]
	switch {
	case imageChanged(spec, c):
		return verdict{kill: true, start: true, why: SpecChanged}
	case probes.Liveness == ProbeFailure:
		return verdict{kill: true, start: d.mayRunAgain(spec), why: LivenessFailed}
	case probes.Startup == ProbeFailure:
		return verdict{kill: true, start: d.mayRunAgain(spec), why: StartupFailed}
	}
	return d.judgeResize(spec, c)
}

// imageChanged reports whether a container was created from another image than the spec's: the hash
// covers only name and image. A container without a hash counts as unchanged.
func imageChanged(spec *v1.Container, c *runtime.ContainerStatus) bool {
	return c.SpecHash != 0 && c.SpecHash != runtime.HashContainer(spec)
}

// mayRunAgain reports whether a container may run again when it is podsync that
// ends it. Restart rules are not asked: there is no exit code yet.
func (d *decision) mayRunAgain(spec *v1.Container) bool {
	return restartPolicy(d.Pod, spec) != v1.RestartPolicyNever
}
