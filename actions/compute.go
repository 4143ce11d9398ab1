package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// Compute decides what the pod needs next. It is a pure function: the same
// Input gives the same Plan, and nothing is read, kept or written beyond it.
//
// For an Input that Validate refuses it returns the zero Plan.
func Compute(in Input) Plan {
	if in.Validate() != nil {
		return Plan{}
	}
	d := decision{Input: in, active: in.Status.ActiveSandbox()}
	d.plan.Sandbox = judgeSandbox(in.Pod, in.Status)
	switch {
	case in.RestartAll:
		d.resetAll()
	case d.plan.Sandbox.Reason != ReasonNone:
		d.replaceSandbox()
	default:
		d.goOn()
	}
	return d.plan
}

// decision is a Plan in the making.
type decision struct {
	Input
	active *runtime.SandboxStatus
	plan   Plan
}

// resetAll removes every container that is not ephemeral, so that the next look
// at the pod finds it as if it had never run.
func (d *decision) resetAll() {
	if d.plan.Sandbox.Reason != ReasonNone {
		d.killPod(d.plan.Sandbox.Reason)
		d.plan.Sandbox.Create = true
	}
	for i := range d.Pod.Spec.Containers {
		d.reset(ContainerRef{RegularContainer, i, d.Pod.Spec.Containers[i].Name})
	}
	for i := range d.Pod.Spec.InitContainers {
		d.reset(ContainerRef{InitContainer, i, d.Pod.Spec.InitContainers[i].Name})
	}
}

func (d *decision) reset(ref ContainerRef) {
	if d.Status == nil {
		return
	}
	for i := range d.Status.Containers {
		if c := &d.Status.Containers[i]; c.Name == ref.Name {
			d.plan.Reset = append(d.plan.Reset, ResetStep{ref, c.ID, c.Live()})
		}
	}
}

// replaceSandbox stops what is left of the pod and, if a container is to run
// again, starts over in a new sandbox.
func (d *decision) replaceSandbox() {
	d.killPod(d.plan.Sandbox.Reason)
	if d.finishedForGood() {
		return
	}
	if !slices.ContainsFunc(d.Pod.Spec.Containers, func(c v1.Container) bool { return d.worthRestarting(&c) }) {
		return
	}
	first := d.plan.Sandbox.Reason
	if len(d.Pod.Spec.InitContainers) > 0 {
		d.plan.Sandbox.Create = true
		d.start(ContainerRef{InitContainer, 0, d.Pod.Spec.InitContainers[0].Name}, first)
		return
	}
	for i := range d.Pod.Spec.Containers {
		c := &d.Pod.Spec.Containers[i]
		if d.worthRestarting(c) {
			d.plan.Sandbox.Create = true
			d.start(ContainerRef{RegularContainer, i, c.Name}, first)
		}
	}
}

// goOn looks at every container in the sandbox that the pod has.
func (d *decision) goOn() {
	d.startEphemeral()
	switch d.initialize() {
	case initWaits:
		return
	case initFailed:
		d.killPod(PodInitFailed)
		return
	}
	if !d.runRegular() {
		d.plan.Start = slices.DeleteFunc(d.plan.Start, func(s StartStep) bool { return s.Container.Kind != EphemeralContainer })
		d.killPod(PodFinished)
	}
}

func (d *decision) killPod(why Reason) { d.plan.KillPod, d.plan.KillReason = true, why }

func (d *decision) start(ref ContainerRef, why Reason) {
	d.plan.Start = append(d.plan.Start, StartStep{ref, nextAttempt(d.Status, ref.Name), why})
}

func (d *decision) kill(ref ContainerRef, c *runtime.ContainerStatus, why Reason, restart bool) {
	d.plan.Kill = append(d.plan.Kill, KillStep{ref, c.ID, why, restart})
	if restart {
		d.start(ref, why)
	}
}

func nextAttempt(status *runtime.PodStatus, name string) uint32 {
	if last := status.Latest(name); last != nil {
		return last.Attempt + 1
	}
	return 0
}
