package actions

import "github.com/podsync/podsync/runtime"

// Plan is the next steps for one pod. It is a value: it holds no reference to its Input, and
// computing it again gives an equal Plan.
//
// The fields are in execution order. If KillPod is set, the pod is stopped first, and if no new sandbox
// follows, that is all: see TerminatesPod. Then Kill, Clear and Reset, which are independent and may run
// concurrently; then the sandbox; then PostStart; then Start, in order; then Resize; then CPUSets. A step with a Hold is not
// executed; a later plan has it without the Hold. A step that fails blocks the later steps of its own
// container; if the sandbox cannot be created, all later steps are blocked.
//
// The zero Plan has no steps.
type Plan struct {
	// KillPod requests to stop every container and sandbox in the pod, including containers that
	// are not in the spec. KillReason is why. Without Sandbox.Create the pod ends with it, unless a
	// later plan decides otherwise: see TerminatesPod.
	KillPod    bool
	KillReason Reason
	// Kill lists containers to stop: running ones, and those whose state is unknown. With KillPod
	// they are part of it and state the reason.
	Kill []KillStep
	// Clear lists superseded instances that are alive, or may come alive: stop and remove them. A
	// container is started only after each instance with its name has been cleared, so that two
	// never run at once (kubernetes #139670).
	Clear []ClearStep
	// Reset lists containers to remove because the whole pod starts over. Those with Last set are
	// at the end.
	Reset []ResetStep
	// Sandbox is the sandbox that the pod's containers run in.
	Sandbox SandboxStep
	// PostStart lists running containers whose postStart handler must run, because it is not known
	// to have finished.
	PostStart []PostStartStep
	// Start are containers to create and start: ephemeral, then init, then
	// regular ones, each in the spec's order.
	Start []StartStep
	// Resize lists running containers whose resources change in place. Those that need no more
	// memory come first, to make room for the others.
	Resize []ResizeStep
	// CPUSets lists running containers whose CPUs or memory nodes change in place. They are independent of each other.
	CPUSets []CPUSetStep
	// Hold is why the plan has only KillPod although the pod should run: see Input.Blocked.
	Hold Hold
	// Invalid is Input.Validate's error, nil if the input is valid. With an error the plan has no
	// steps.
	Invalid error
}

// SandboxStep is the sandbox the pod runs in after the plan.
type SandboxStep struct {
	// Create asks for a new sandbox with the number Attempt.
	Create bool
	// ID is the latest sandbox in the runtime: the one that containers start in, or the one that
	// the new sandbox replaces. Empty if there is none.
	ID string
	// Attempt is that sandbox's attempt, or the next one if the sandbox must be replaced.
	Attempt uint32
	// Reason is why the sandbox ID cannot be used, ReasonNone if it can.
	Reason Reason
	// Hold is why the sandbox cannot be used yet. PostStart, Start, Resize and CPUSets wait for its end.
	Hold Hold
}

// KillStep stops one container.
type KillStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
	Reason    Reason
	// Restart means that the plan starts the container again afterwards.
	Restart bool
}

// ClearStep stops and removes one superseded instance.
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
	// Last means that all other steps in Kill, Clear and Reset must succeed first: this container's
	// exit requests the restart, and its record is how a restarted agent knows that the others must
	// be removed.
	Last bool
}

// StartStep creates and starts one container.
type StartStep struct {
	Container ContainerRef
	// Attempt is the lowest number that the new instance may have: one more than any instance in
	// the runtime. A caller that knows higher ones, from logs or its own records, uses those
	// (kubernetes #134153).
	Attempt uint32
	Reason  Reason
	// Hold is why the container is not started now, although it should be.
	Hold Hold
}

// Independent reports whether the step need not wait for a step before it in Plan.Start that takes long, such as a pull: the
// container is ephemeral, or it has run in the sandbox before. A container that starts for the first time waits, because its pod
// may rely on the order of the spec.
func (s StartStep) Independent() bool {
	switch s.Reason {
	case ContainerStateUnknown, ContainerExited, ContainerExitRule, ContainerRestarting, SpecChanged, ResizeRestart:
		return true
	}
	return s.Reason.FailedProbe() || s.Container.Kind == EphemeralContainer
}

// PostStartStep runs a running container's postStart handler.
type PostStartStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
}

// ResizeStep changes one running container's resources in place.
type ResizeStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
	Reason    Reason
	// CPU and Memory say which ones differ from the spec.
	CPU, Memory bool
	// MoreMemory means that the memory limit is raised or removed. Such a step waits for the steps
	// before it that release memory.
	MoreMemory bool
	// Hold is why the resources are not changed now, although they should be.
	Hold Hold
}

// CPUSetStep changes the CPUs and the memory nodes with which one running container runs.
type CPUSetStep struct {
	Container ContainerRef
	ID        runtime.ContainerID
	Reason    Reason
	// CPUSet is the new one.
	CPUSet runtime.CPUSet
	// Hold is why it is not changed now, although it should be.
	Hold Hold
}

// NoOp reports whether the plan leaves the runtime unchanged.
func (p Plan) NoOp() bool {
	return !p.KillPod && !p.Sandbox.Create &&
		len(p.Kill)+len(p.Clear)+len(p.Reset)+len(p.PostStart)+len(p.Start)+len(p.Resize)+len(p.CPUSets) == 0
}

// TerminatesPod reports whether the plan stops the pod for good: then nothing but
// stopping it is carried out. A pod with an init container in an unknown state is stopped
// and then judged again: it may have yet to run. A pod that is not admitted waits.
func (p Plan) TerminatesPod() bool {
	return p.stopsAll() && p.KillReason != PodInitUnknown && p.KillReason != PodNotAdmitted
}

// stopsAll reports whether nothing but stopping the pod is carried out.
func (p Plan) stopsAll() bool { return p.KillPod && !p.Sandbox.Create }
