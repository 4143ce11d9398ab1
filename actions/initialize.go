package actions

import (
	"github.com/podsync/podsync/runtime"
)

// initState is how far the init containers in a pod are.
type initState uint8

const (
	// initWaits: an init container must complete before anything else starts.
	initWaits initState = iota
	// initDone: regular containers may run.
	initDone
	// initFailed: an init container failed and may not run again.
	initFailed
)

// initialize takes the next initialization step and keeps sidecars alive.
//
// Init containers run one after the other, and completed ones' records may be removed at any time.
// So the last one with a record determines the progress: all before it have completed, and it
// decides the next step.
func (d *decision) initialize() initState {
	all := d.Pod.Spec.InitContainers
	if len(all) == 0 {
		return initDone
	}
	if d.pastInit() {
		d.keepSidecars(len(all))
		return initDone
	}
	reached := d.reachedInit()
	if reached < 0 {
		d.take(initRef(d.Pod, 0), nil, verdict{start: true, why: ContainerMissing})
		return initWaits
	}
	ref := initRef(d.Pod, reached)
	c := d.inSandbox(ref)
	v, state := d.judgeInit(ref, c)
	if state == initFailed {
		d.take(ref, c, v)
		return initFailed
	}
	d.keepSidecars(reached)
	d.take(ref, c, v)
	if state == initDone && reached+1 < len(all) {
		d.take(initRef(d.Pod, reached+1), nil, verdict{start: true, why: NextInit})
		return initWaits
	}
	return state
}

// inSandbox returns a container's current instance if it belongs to the pod's
// sandbox. What an init container did in an earlier sandbox does not count in
// this one (kubernetes #140309).
func (d *decision) inSandbox(ref ContainerRef) *runtime.ContainerStatus {
	if c := d.current(ref); c.In(d.sandbox) {
		return c
	}
	return nil
}

// pastInit reports whether a regular container shows that initialization has completed: one has
// been created in this sandbox. An exited container whose sandbox is unknown shows nothing, because
// it may belong to an earlier sandbox.
func (d *decision) pastInit() bool {
	for i := range d.Pod.Spec.Containers {
		c := d.inSandbox(regularRef(d.Pod, i))
		if c == nil {
			continue
		}
		if c.SandboxID != "" || c.State == runtime.ContainerCreated || c.State == runtime.ContainerRunning {
			return true
		}
	}
	return false
}

// reachedInit returns the index for the last init container that has a record
// in this sandbox, or -1.
func (d *decision) reachedInit() int {
	for i := len(d.Pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if d.inSandbox(initRef(d.Pod, i)) != nil {
			return i
		}
	}
	return -1
}

// keepSidecars keeps the sidecars among the first n init containers alive.
func (d *decision) keepSidecars(n int) {
	for i := range n {
		if runtime.IsSidecar(&d.Pod.Spec.InitContainers[i]) {
			ref := initRef(d.Pod, i)
			c := d.inSandbox(ref)
			v, _ := d.judgeSidecar(ref, c)
			d.take(ref, c, v)
		}
	}
}

// judgeInit decides on an init container by its current instance, and returns whether the container
// has completed.
func (d *decision) judgeInit(ref ContainerRef, c *runtime.ContainerStatus) (verdict, initState) {
	spec := ref.Spec(d.Pod)
	if runtime.IsSidecar(spec) {
		return d.judgeSidecar(ref, c)
	}
	switch c.State {
	case runtime.ContainerCreated:
		return verdict{start: true, why: ContainerNeverStarted}, initWaits
	case runtime.ContainerRunning:
		if v := d.judgeResize(spec, c); !v.kill { // an init container is not restarted to resize it
			return v, initWaits
		}
		return verdict{why: StillRunning}, initWaits
	case runtime.ContainerExited:
		return d.judgeEndedInit(ref, c)
	}
	if !d.mayRunAgain(spec) {
		return verdict{why: ContainerStateUnknown}, initFailed
	}
	return verdict{kill: true, start: true, why: ContainerStateUnknown}, initWaits
}

// whyInitFailed returns PodInitFailed if that is certain. While an init container's state is
// unknown it is not certain, because the pod may still run.
func (d *decision) whyInitFailed() Reason {
	for i := range d.Pod.Spec.InitContainers {
		if c := d.current(initRef(d.Pod, i)); c != nil && c.State == runtime.ContainerUnknown {
			return PodInitUnknown
		}
	}
	return PodInitFailed
}

func (d *decision) judgeEndedInit(ref ContainerRef, c *runtime.ContainerStatus) (verdict, initState) {
	if c.ExitCode == 0 && !d.isRestarting(c) {
		return verdict{why: DoneSucceeded}, initDone
	}
	again, why := d.afterExit(ref, c)
	if !again {
		return verdict{why: why}, initFailed
	}
	return verdict{start: true, why: why}, initWaits
}

// judgeSidecar decides on a restartable init container. It must always run. It no longer blocks
// initialization once it has started (KEP-753), or once its startup probe has succeeded if its spec
// has one.
func (d *decision) judgeSidecar(ref ContainerRef, c *runtime.ContainerStatus) (verdict, initState) {
	if c == nil {
		return verdict{start: true, why: ContainerMissing}, initWaits
	}
	switch c.State {
	case runtime.ContainerCreated:
		return verdict{start: true, why: ContainerNeverStarted}, initWaits
	case runtime.ContainerExited:
		return verdict{start: true, why: ContainerExited}, initWaits
	case runtime.ContainerRunning:
		return d.judgeRunningSidecar(ref, c)
	}
	return verdict{kill: true, start: true, why: ContainerStateUnknown}, initWaits
}

func (d *decision) judgeRunningSidecar(ref ContainerRef, c *runtime.ContainerStatus) (verdict, initState) {
	spec, probes := ref.Spec(d.Pod), d.Probes[c.ID]
	if spec.StartupProbe != nil && probes.Startup == ProbeFailure {
		return verdict{kill: true, start: true, why: StartupFailed}, initWaits
	}
	if spec.StartupProbe != nil && probes.Startup != ProbeSuccess {
		return verdict{why: StillStarting}, initWaits
	}
	if imageChanged(spec, c) {
		return verdict{kill: true, start: true, why: SpecChanged}, initDone
	}
	if spec.LivenessProbe != nil && probes.Liveness == ProbeFailure {
		return verdict{kill: true, start: true, why: LivenessFailed}, initDone
	}
	return d.judgeResize(spec, c), initDone
}
