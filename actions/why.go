package actions

import "github.com/podsync/podsync/runtime"

// Why returns why Compute does what it does with the container of that name, or
// why it leaves it alone. It reports false for a name that the pod does not have,
// and for an Input that Validate refuses.
func Why(in Input, name string) (Reason, bool) {
	if in.Validate() != nil {
		return ReasonNone, false
	}
	ref, ok := FindContainer(in.Pod, name)
	if !ok {
		return ReasonNone, false
	}
	return decideWatching(in, ref).why(ref), true
}

// watch remembers what was decided on one container.
type watch struct {
	ref     ContainerRef
	verdict verdict
	judged  bool
}

func decideWatching(in Input, ref ContainerRef) *decision {
	d := &decision{Input: in, watch: &watch{ref: ref}}
	d.observe(containerNames(nil, in.Pod))
	d.decide()
	return d
}

// why returns the reason for what was decided on the watched container. One that
// no rule was asked about waits for another, or is past its time.
func (d *decision) why(ref ContainerRef) Reason {
	switch v := d.watch.verdict; {
	case d.plan.Hold.Holds():
		return d.plan.Hold.Reason
	case d.plan.stopsAll() && v.start && !v.kill: // its start was taken back
		return d.whyOver(ref)
	case d.watch.judged:
		return v.why
	case d.RestartAll:
		return d.whyInReset(ref)
	case d.plan.Sandbox.Create:
		return d.whyInNewSandbox(ref)
	case d.plan.KillPod:
		return d.whyOver(ref)
	case ref.Kind == InitContainer:
		return d.whyInit(ref)
	}
	return WaitsForInit
}

func (d *decision) whyInReset(ref ContainerRef) Reason {
	switch c := d.current(ref); {
	case ref.Kind == EphemeralContainer && c != nil:
		return DoneEphemeral
	case c != nil:
		return RestartAllContainers
	}
	return WaitsForReset
}

func (d *decision) whyInNewSandbox(ref ContainerRef) Reason {
	switch {
	case ref.Kind == EphemeralContainer:
		return WaitsForSandbox
	case ref.Kind == RegularContainer && !d.rerunsInNewSandbox(ref):
		return DoneSucceeded
	}
	return WaitsForInit
}

// whyOver is why a container of a pod that is stopped for good does not run: its
// own end, or that of the pod.
func (d *decision) whyOver(ref ContainerRef) Reason {
	c := d.current(ref)
	if c == nil || c.State != runtime.ContainerExited || ref.Kind == EphemeralContainer {
		return EndsWithPod
	}
	if again, why := AfterExit(d.Pod, ref.Spec(d.Pod), c.ExitCode); !again {
		return why
	}
	return EndsWithPod
}

func (d *decision) whyInit(ref ContainerRef) Reason {
	switch {
	case d.pastInit():
		return DoneInit
	case ref.Index < d.reachedInit():
		return InitPassed
	}
	return WaitsForInit
}
