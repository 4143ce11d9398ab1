package actions

import "github.com/podsync/podsync/runtime"

// Plan is what one pod needs next. It is a value: it holds no reference to the
// Input it was made from, and computing it again gives an equal one.
//
// The fields stand in the order in which they are carried out. Release comes first: what
// it names may be started again by the same plan. Then the pod is stopped, if KillPod is
// set, and if no new sandbox follows that is all: see TerminatesPod. Then come Kill, Clear
// and Reset, which do not depend on each other and may be carried out side by side; then
// the sandbox; then PostStart; then Start, in order; then Resize. A step with a Hold stands
// for what follows: it is not carried out before a later plan has it without. A step that
// fails holds up the later steps of its own container, and a sandbox that cannot be made
// holds up all that follows it.
//
// The zero Plan has nothing to do.
type Plan struct {
	// Release are regular containers that exist and do not run: resources held
	// for them alone (exclusive CPUs, devices) can be given back. They are listed
	// in every plan as long as that is so, so releasing twice must do no harm.
	Release []ContainerRef
	// KillPod asks for every container and sandbox of the pod to be stopped,
	// known to the spec or not. KillReason says why. Without Sandbox.Create the pod
	// ends by it, unless it is judged again: see TerminatesPod.
	KillPod    bool
	KillReason Reason
	// Kill are containers to stop: running ones, and those of which the runtime
	// cannot tell. Where KillPod is set they are part of it, and say why.
	Kill []KillStep
	// Clear are instances that may be, or may yet come, alive and whose place is
	// taken by another: stop and remove them. A container is started only after
	// each instance of its name has been cleared, so that two never run at once
	// (kubernetes #139670).
	Clear []ClearStep
	// Reset are containers to remove because the whole pod starts over. Those with Last
	// set stand at the end.
	Reset []ResetStep
	// Sandbox is the sandbox that the pod's containers run in.
	Sandbox SandboxStep
	// PostStart are the running containers whose postStart handler is to be run, because it
	// has not been seen to end.
	PostStart []PostStartStep
	// Start are containers to create and start: ephemeral, then init, then
	// regular ones, each in the order of the spec.
	Start []StartStep
	// Resize are running containers whose resources change in place: first those that get
	// no more memory, so that there is room for the others.
	Resize []ResizeStep
	// Hold is why nothing but KillPod is carried out, although the pod is to run: see
	// Input.Blocked.
	Hold Hold
	// Invalid is why Input.Validate refuses the input: nothing was decided then. Nil for
	// any other.
	Invalid error
}

// SandboxStep is the sandbox the pod runs in after the plan.
type SandboxStep struct {
	// Create asks for a new sandbox with the number Attempt.
	Create bool
	// ID is the latest sandbox the runtime has: the one that containers start in,
	// or the one that the new sandbox follows. Empty if there is none.
	ID string
	// Attempt is the number of that sandbox, and if it cannot be used the next.
	Attempt uint32
	// Reason is why the sandbox ID cannot be used, ReasonNone if it can.
	Reason Reason
	// Hold is why the sandbox cannot be used yet: nothing of PostStart, Start and Resize is
	// carried out before that is over.
	Hold Hold
}

// KillStep stops one container.
type KillStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
	Reason    Reason
	// Restart tells that the plan starts the container again afterwards.
	Restart bool
}

// ClearStep stops and removes one instance whose place is taken.
type ClearStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
	Reason    Reason
}

// ResetStep removes one container, after stopping it if Stop is set.
type ResetStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
	Reason    Reason
	Stop      bool
	// Last tells that all other steps of Kill, Clear and Reset have to succeed first: the exit
	// of this container asks for the restart, and until then its record is what shows, to
	// an agent started later, that the others have to be removed.
	Last bool
}

// StartStep creates and starts one container.
type StartStep struct {
	Container ContainerRef
	// Attempt is the least number the new instance may have: one more than that
	// of any instance the runtime reports, whatever its age. A caller that knows
	// of higher ones, from logs or memory, takes those (kubernetes #134153).
	Attempt uint32
	Reason  Reason
	// Hold is why the container is not started now, although it is to be.
	Hold Hold
}

// PostStartStep runs the postStart handler of a running container.
type PostStartStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
}

// ResizeStep changes resources of one running container in place.
type ResizeStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
	Reason    Reason
	// CPU and Memory tell which of the two differ from the spec.
	CPU, Memory bool
	// MoreMemory tells that the memory limit is raised, or lifted. Such a step waits for
	// those before it that give memory back.
	MoreMemory bool
	// Hold is why the resources are not changed now, although they are to be.
	Hold Hold
}

// NoOp reports whether the plan leaves the runtime as it is, which one that has only
// something to Release does.
func (p Plan) NoOp() bool {
	return !p.KillPod && !p.Sandbox.Create &&
		len(p.Kill)+len(p.Clear)+len(p.Reset)+len(p.PostStart)+len(p.Start)+len(p.Resize) == 0
}

// TerminatesPod reports whether the plan stops the pod for good: then nothing but
// stopping it is carried out. A pod with an init container in an unknown state is stopped
// and then judged again: it may have yet to run. A pod that is not admitted waits.
func (p Plan) TerminatesPod() bool {
	return p.stopsAll() && p.KillReason != PodInitUnknown && p.KillReason != PodNotAdmitted
}

// stopsAll reports whether nothing but stopping the pod is carried out.
func (p Plan) stopsAll() bool { return p.KillPod && !p.Sandbox.Create }
