package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// initState is how far the init containers are.
type initState uint8

const (
	initWaits initState = iota
	initDone
	initFailed
)

// initialize takes the next steps of initialization.
//
// Init containers run one after the other, and records of finished ones may be
// removed at any time, so progress is read from the last one that has a record:
// all before it have done their part. Sidecars before it are kept alive, and
// that one decides what comes next. A regular container that was created proves
// that all of them have.
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
		d.start(initRef(d, 0), ContainerMissing)
		return initWaits
	}
	ref := initRef(d, reached)
	c := d.Status.Latest(ref.Name)
	v, st := d.judgeInit(ref, c)
	if st == initFailed {
		return st
	}
	d.keepSidecars(reached)
	d.take(ref, c, v)
	if st != initDone {
		return st
	}
	if reached == len(all)-1 {
		return initDone
	}
	d.start(initRef(d, reached+1), NextInit)
	return initWaits
}

func initRef(d *decision, i int) ContainerRef {
	return ContainerRef{InitContainer, i, d.Pod.Spec.InitContainers[i].Name}
}

func (d *decision) reachedInit() int {
	for i := len(d.Pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if d.Status.Latest(d.Pod.Spec.InitContainers[i].Name) != nil {
			return i
		}
	}
	return -1
}

func (d *decision) pastInit() bool {
	for i := range d.Pod.Spec.Containers {
		c := d.Status.Latest(d.Pod.Spec.Containers[i].Name)
		if c != nil && (c.State == runtime.ContainerCreated || c.State == runtime.ContainerRunning) {
			return true
		}
	}
	return false
}

func (d *decision) keepSidecars(before int) {
	for i := range before {
		if spec := &d.Pod.Spec.InitContainers[i]; isSidecar(spec) {
			c := d.Status.Latest(spec.Name)
			v, _ := d.judgeInit(initRef(d, i), c)
			d.take(initRef(d, i), c, v)
		}
	}
}

func (d *decision) judgeInit(ref ContainerRef, c *runtime.ContainerStatus) (verdict, initState) {
	spec := specOf(d.Pod, ref)
	if isSidecar(spec) {
		return d.judgeSidecar(ref, c)
	}
	switch c.State {
	case runtime.ContainerCreated:
		return verdict{start: true, why: ContainerNeverStarted}, initWaits
	case runtime.ContainerRunning:
		return verdict{why: StillRunning}, initWaits
	case runtime.ContainerUnknown:
		if restartPolicy(d.Pod, spec) == "Never" {
			return verdict{}, initFailed
		}
		return verdict{kill: true, start: true, why: ContainerStateUnknown}, initWaits
	}
	if c.ExitCode == 0 {
		return verdict{why: DoneSucceeded}, initDone
	}
	again, why := afterExit(d.Pod, spec, c.ExitCode)
	if !again {
		return verdict{why: why}, initFailed
	}
	return verdict{start: true, why: why}, initWaits
}

func (d *decision) judgeSidecar(ref ContainerRef, c *runtime.ContainerStatus) (verdict, initState) {
	if c == nil {
		return verdict{start: true, why: ContainerMissing}, initWaits
	}
	spec := specOf(d.Pod, ref)
	switch c.State {
	case runtime.ContainerCreated:
		return verdict{start: true, why: ContainerNeverStarted}, initWaits
	case runtime.ContainerExited:
		return verdict{start: true, why: ContainerExited}, initWaits
	case runtime.ContainerUnknown:
		return verdict{kill: true, start: true, why: ContainerStateUnknown}, initWaits
	}
	probes := d.probes(c)
	if spec.StartupProbe != nil && probes.Startup != ProbeSuccess {
		if probes.Startup == ProbeFailure {
			return verdict{kill: true, start: true, why: StartupFailed}, initWaits
		}
		return verdict{why: StillStarting}, initWaits
	}
	switch {
	case runtime.HashContainer(spec) != c.SpecHash:
		return verdict{kill: true, start: true, why: SpecChanged}, initDone
	case spec.LivenessProbe != nil && probes.Liveness == ProbeFailure:
		return verdict{kill: true, start: true, why: LivenessFailed}, initDone
	}
	return verdict{why: StillRunning}, initDone
}

func (d *decision) finishedForGood() bool {
	if d.Pod.Spec.RestartPolicy == "Never" && d.plan.Sandbox.Attempt != 0 && d.Status != nil && len(d.Status.Containers) > 0 {
		return true
	}
	return false
}

func (d *decision) worthRestarting(spec *v1.Container) bool {
	c := d.Status.Latest(spec.Name)
	return restartPolicy(d.Pod, spec) != "OnFailure" || c == nil || c.State != runtime.ContainerExited || c.ExitCode != 0
}
