package actions

import "github.com/podsync/podsync/runtime"

// Why returns the reason for what Compute does with the named container, or for leaving it alone.
// It returns false if the pod has no such container, or if Validate rejects the Input.
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

// watch records the decision on one container.
type watch struct {
	ref     ContainerRef
	verdict verdict
	judged  bool
}

func decideWatching(in Input, ref ContainerRef) *decision {
	d := &decision{
		Input: &in, observation: observe(in.Pod, in.Status), plan: &Plan{},
		starting: make([]Reason, count(in.Pod)), watch: &watch{ref: ref},
	}
	d.decide()
	return d
}

// why returns the reason for the decision on the watched container. If no rule was applied to it,
// it waits for another container or has already completed.
func (d *decision) why(ref ContainerRef) Reason {
	switch v := d.watch.verdict; {
	case d.plan.Hold.Holds():
		return d.plan.Hold.Reason
	case d.plan.stopsAll() && v.start && !v.kill: // its start was dropped
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

// whyOver returns why a container in a stopped pod does not run: its own exit, or the pod's end.
func (d *decision) whyOver(ref ContainerRef) Reason {
	c := d.current(ref)
	if c == nil || c.State != runtime.ContainerExited || ref.Kind == EphemeralContainer {
		return EndsWithPod
	}
	if again, why := d.afterExit(ref, c); !again {
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
