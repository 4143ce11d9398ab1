package actions

// Reason is why a step is taken, or why a container is left alone. The zero
// value is no reason.
type Reason uint8

const (
	ReasonNone Reason = iota

	// Why the pod gets a new sandbox, or would.

	// SandboxMissing: the pod has no sandbox.
	SandboxMissing
	// SandboxNotReady: the latest sandbox has stopped.
	SandboxNotReady
	// SandboxDoubled: more than one sandbox is ready.
	SandboxDoubled
	// SandboxNetworkChanged: the latest sandbox is on the node's network and the
	// pod should not be (spec.hostNetwork), or the other way round.
	SandboxNetworkChanged
	// SandboxNoAddress: the latest sandbox has a network without an address.
	SandboxNoAddress

	// Why the pod is stopped without a new sandbox.

	// PodFinished: no container runs and none may run again.
	PodFinished
	// PodInitFailed: an init container failed and may not run again.
	PodInitFailed

	// Why a container is started.

	// ContainerMissing: the runtime has no record of the container.
	ContainerMissing
	// ContainerNeverStarted: the container was created and its start failed, or
	// its result was never learnt.
	ContainerNeverStarted
	// ContainerStateUnknown: the runtime cannot tell whether the container is
	// alive, so it is stopped and replaced.
	ContainerStateUnknown
	// ContainerExited: the container has ended and its restart policy asks for
	// another run.
	ContainerExited
	// ContainerExitRule: the container ended with an exit code for which one of
	// its restart rules asks for another run (KEP-5307).
	ContainerExitRule
	// ContainerOfOldSandbox: the container belongs to a sandbox that is gone.
	ContainerOfOldSandbox
	// NextInit: the init container before it has done its part.
	NextInit

	// Why a running container is stopped.

	// SpecChanged: its name or image in the spec is not what it was made from.
	SpecChanged
	// LivenessFailed: its liveness probe failed.
	LivenessFailed
	// StartupFailed: its startup probe failed.
	StartupFailed
	// ResizeRestart: its resources changed and its resize policy asks for a
	// restart (KEP-1287).
	ResizeRestart
	// AllRestart: all containers of the pod restart (KEP-5532).
	AllRestart

	// Superseded: a newer instance of the same container has taken its place.
	Superseded

	// Why a container is left alone.

	// StillRunning: it runs as it should.
	StillRunning
	// StillStarting: it is a sidecar whose startup probe has not passed yet.
	StillStarting
	// DoneSucceeded: it ended well and its restart policy asks for no other run.
	DoneSucceeded
	// DoneFailed: it failed and its restart policy asks for no other run.
	DoneFailed
	// DoneInit: it is an init container of a pod that is past initialization.
	DoneInit
	// DoneEphemeral: it is an ephemeral container, which runs once.
	DoneEphemeral
	// PodDeleted: it has ended, and the pod is being deleted.
	PodDeleted
	// WaitsForInit: an init container has to do its part first.
	WaitsForInit
	// WaitsForSandbox: the pod gets a new sandbox first.
	WaitsForSandbox
	// WaitsForReset: all containers are removed first.
	WaitsForReset
)
