package actions

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

// Compute decides what the pod needs next. It is a pure function: the same Input gives the same
// Plan; it performs no I/O and keeps no state. It may be called concurrently.
//
// If Validate rejects the Input, the Plan is empty except for Invalid.
func Compute(in Input) Plan {
	if err := in.Validate(); err != nil {
		return Plan{Invalid: err}
	}
	var plan Plan
	var usual [usualContainers]Reason
	d := decision{
		Input: &in, observation: observe(in.Pod, in.Status), plan: &plan,
		starting: append(usual[:0], make([]Reason, count(in.Pod))...), // it allocates only for more containers
	}
	d.decide()
	return plan
}

// decision is a plan under construction. Each method implements one rule and adds the
// resulting steps.
type decision struct {
	*Input
	observation
	plan *Plan
	// starting are the reasons to start containers, by position, ReasonNone for the others.
	starting []Reason
	// watch, if set, records the decision on one container.
	watch *watch
}

func (d *decision) decide() {
	d.plan.Sandbox = d.judgeSandbox()
	switch {
	case d.End != ReasonNone:
		d.killPod(d.End)
	case d.RestartAll:
		d.resetAll()
	case d.plan.Sandbox.Reason != ReasonNone:
		d.replaceSandbox()
	default:
		d.goOn()
	}
	d.plan.Start = d.startSteps()
	if (len(d.plan.Start) > 0 || d.plan.Sandbox.Create) && !d.plan.Sandbox.Hold.Holds() {
		d.plan.Sandbox.Hold = d.SandboxHold
	}
	if d.isBlocked() {
		d.block()
	}
}

// isBlocked reports whether the plan's steps must wait. A pod that ends does not wait, and neither does one that needs no
// new sandbox for the node's network: its containers restart in the network that it has.
func (d *decision) isBlocked() bool {
	if d.Blocked.Reason == NetworkNotReady && !d.plan.Sandbox.Create && !d.plan.KillPod {
		return false
	}
	return d.Blocked.Holds() && !d.plan.TerminatesPod()
}

// block drops all steps for a blocked pod. A pod that is not admitted is stopped.
func (d *decision) block() {
	*d.plan = Plan{Sandbox: d.plan.Sandbox, Hold: d.Blocked}
	d.plan.Sandbox.Create = false
	if d.Blocked.Reason == PodNotAdmitted && d.Status.Live() {
		d.killPod(PodNotAdmitted)
	}
}

// goOn brings every container to where it should be, in the sandbox that the
// pod has.
func (d *decision) goOn() {
	d.startEphemeral()
	switch d.initialize() {
	case initWaits:
	case initFailed:
		d.endPod(d.whyInitFailed())
	case initDone:
		if !d.runRegular() {
			d.endPod(PodFinished)
		}
	}
	if d.strays && !d.plan.KillPod {
		d.clearStrays()
	}
	if !d.plan.KillPod {
		d.finishHooks()
		d.moveContainers()
	}
	moveLast(d.plan.Resize, func(s *ResizeStep) bool { return s.MoreMemory })
}

// endPod stops the pod for good and drops all other steps: neither sidecars (KEP-753) nor ephemeral
// containers keep a pod alive.
func (d *decision) endPod(why Reason) {
	d.killPod(why)
	clear(d.starting)
	d.plan.Resize = nil
	for i := range d.plan.Kill {
		d.plan.Kill[i].Restart = false
	}
}

func (d *decision) killPod(why Reason) { d.plan.KillPod, d.plan.KillReason = true, why }

// take adds the steps that a verdict on a container asks for.
func (d *decision) take(ref ContainerRef, c *runtime.ContainerStatus, v verdict) {
	if d.watch != nil && d.watch.ref == ref {
		d.watch.verdict, d.watch.judged = v, true
	}
	if d.isInFlight(ref.Name) {
		return
	}
	if v.kill {
		d.plan.Kill = append(d.plan.Kill, KillStep{ref, c.ID, v.why, v.start})
	}
	if v.start {
		d.starting[position(d.Pod, ref)] = v.why
	}
	if v.resize.any() {
		d.plan.Resize = append(d.plan.Resize, ResizeStep{ref, c.ID, ResourcesChanged, v.resize.cpu, v.resize.memory, v.resize.moreMemory, d.ResizeHolds[ref.Name]})
	}
}

// isInFlight reports whether a container is left to a step of an earlier plan.
func (d *decision) isInFlight(name string) bool {
	return !d.plan.KillPod && slices.Contains(d.InFlight, name)
}

// startSteps returns the steps that start containers: ephemeral ones, which wait for no other, come first.
func (d *decision) startSteps() []StartStep {
	n := 0
	for _, why := range d.starting {
		if why != ReasonNone {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	steps := make([]StartStep, 0, n)
	ephemeral := len(d.starting) - len(d.Pod.Spec.EphemeralContainers)
	for at := ephemeral; at < len(d.starting); at++ {
		steps = d.appendStart(steps, at)
	}
	for at := range ephemeral {
		steps = d.appendStart(steps, at)
	}
	return steps
}

func (d *decision) appendStart(steps []StartStep, at int) []StartStep {
	why := d.starting[at]
	if why == ReasonNone {
		return steps
	}
	ref := refAt(d.Pod, at)
	attempt := uint32(0)
	last := d.current(ref)
	if last != nil {
		attempt = following(last.Attempt)
	}
	hold := d.StartHolds[ref.Name]
	crashed := last != nil && last.State == runtime.ContainerExited || why.FailedProbe()
	if hold.Reason == CrashBackOff && !crashed {
		hold = Hold{}
	}
	return append(steps, StartStep{ref, attempt, why, hold})
}

// following returns the next attempt. It does not overflow.
func following(attempt uint32) uint32 {
	return max(attempt, attempt+1)
}

// verdict is the decision on one container, and why. A verdict without kill and
// start leaves it as it is.
type verdict struct {
	kill, start bool
	why         Reason
	resize      resize
}

// alive reports whether the container runs once the plan is carried out.
func (v verdict) alive() bool { return v.start || v.why == StillRunning }
