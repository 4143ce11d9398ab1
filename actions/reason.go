package actions

import "fmt"

// Reason is why a step is taken, or why a container is left alone. The zero value, ReasonNone,
// means that there is no reason.
type Reason uint8

const (
	ReasonNone Reason = iota // no reason

	// Why the pod's sandbox cannot be used.

	SandboxMissing        // there is no sandbox
	SandboxNotReady       // the latest has stopped
	SandboxMultipleReady  // more than one sandbox is ready
	SandboxNetworkChanged // the latest sandbox is on the node's network and should not be, or vice versa (spec.hostNetwork)
	SandboxNoAddress      // the latest has a network and no address in it

	// Reasons to wait.

	AddressPending  // the sandbox has no address yet
	CrashBackOff    // the container has exited repeatedly, and its next start waits
	FailureBackOff  // the step has failed, and its retry waits
	PodNotAdmitted  // the pod may not run on the node
	NetworkNotReady // the node has no network yet

	// Why the pod is stopped for good.

	PodFinished   // no regular container is alive or may run again
	PodInitFailed // an init container failed and may not run again
	PodEnded      // it was reported as Succeeded or Failed
	PodEvicted    // the node stops it

	// Why the pod is stopped and then judged again.

	PodInitUnknown // an init container may have failed: its state is unknown until it has been stopped

	// Why a container is started, or its instance cleared.

	ContainerMissing      // the runtime has no record for it
	ContainerNeverStarted // it was created and not started, or its start failed
	ContainerStateUnknown // the runtime does not know whether it is alive
	ContainerExited       // it has ended, and its restart policy asks for another run
	ContainerExitRule     // it has ended, and a restart rule for the exit code asks for another run (KEP-5307)
	ContainerRestarting   // it was stopped in order to be started again
	ContainerOfOldSandbox // it belongs to a sandbox the pod no longer has
	StartsInSandbox       // the pod starts in a new sandbox, from its first container
	NextInit              // the previous init container has completed
	Superseded            // a newer instance has replaced it

	// Why a running container is stopped.

	SpecChanged          // its image is not the one in its spec
	LivenessFailed       // its liveness probe failed
	StartupFailed        // its startup probe failed
	ResizeRestart        // its resources changed, and its resize policy asks for a restart (KEP-1287)
	RestartAllContainers // all containers in the pod restart (KEP-5532)

	// Why a running container is resized or moved in place.

	ResourcesChanged // its resources changed, and its resize policy asks for no restart (KEP-1287)
	CPUSetChanged    // it runs on other CPUs, or with other memory nodes, than it should

	// Why a container is left alone.

	StillRunning    // it runs as it should
	StillStarting   // it is a sidecar whose startup probe has not succeeded yet
	DoneSucceeded   // it exited with exit code 0 and must not run again
	DoneFailed      // it exited with another exit code and must not run again
	PodDeleted      // the pod is being deleted, and the container has exited or was never started; also the reason to stop the pod
	DoneInit        // it is an init container in a pod past initialization
	InitPassed      // it is an init container, and a later one has been started
	DoneEphemeral   // it is an ephemeral container, which runs once
	WaitsForInit    // an init container must complete first
	WaitsForSandbox // the pod gets a new sandbox first
	WaitsForReset   // all containers in the pod are removed first
	EndsWithPod     // the pod is stopped for good

	reasons // their number
)

// FailedProbe reports whether a container is killed because its probe failed. Such a kill
// counts as a container crash.
func (r Reason) FailedProbe() bool { return r == LivenessFailed || r == StartupFailed }

// MarshalText returns what String does.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a text that String returns. A text that this version does not know is an error.
func (r *Reason) UnmarshalText(text []byte) error {
	for known := range reasons {
		if known.String() == string(text) {
			*r = known
			return nil
		}
	}
	return fmt.Errorf("actions: unknown reason %q", text)
}

// String returns the reason as a sentence's end, such as "its liveness probe
// failed".
func (r Reason) String() string {
	if r >= reasons {
		return "no known reason"
	}
	return [reasons]string{
		ReasonNone: "no reason",

		SandboxMissing:        "the pod has no sandbox",
		SandboxNotReady:       "the sandbox is not ready",
		SandboxMultipleReady:  "the pod has more than one ready sandbox",
		SandboxNetworkChanged: "the sandbox is in another network namespace than spec.hostNetwork asks for",
		SandboxNoAddress:      "the sandbox has no address",

		CrashBackOff:    "the container has ended again and again",
		FailureBackOff:  "the last try failed",
		AddressPending:  "the sandbox has no address yet",
		PodNotAdmitted:  "the pod is not admitted to the node",
		NetworkNotReady: "the network of the node is not ready",

		PodFinished:   "no container is running and none is to run again",
		PodInitFailed: "an init container failed and is not to run again",
		PodEnded:      "the pod has succeeded or failed",
		PodEvicted:    "the node stops the pod",

		PodInitUnknown: "the runtime cannot tell whether an init container has failed, until it has been stopped",

		ContainerMissing:      "the runtime has no record of it",
		ContainerNeverStarted: "it was created and never started",
		ContainerStateUnknown: "the runtime cannot tell whether it is alive",
		ContainerExited:       "it has ended and its restart policy asks for another run",
		ContainerExitRule:     "it has ended and a restart rule for its exit code asks for another run",
		ContainerRestarting:   "it was stopped in order to be started again",
		ContainerOfOldSandbox: "it belongs to a sandbox the pod no longer has",
		StartsInSandbox:       "the pod starts in a new sandbox",
		NextInit:              "the init container before it has done its part",
		Superseded:            "a newer instance has taken its place",

		SpecChanged:          "its image changed",
		LivenessFailed:       "its liveness probe failed",
		StartupFailed:        "its startup probe failed",
		ResizeRestart:        "its resources changed and its resize policy asks for a restart",
		RestartAllContainers: "all containers of the pod restart",

		ResourcesChanged: "its resources changed",
		CPUSetChanged:    "its CPUs or NUMA nodes changed",

		StillRunning:    "it runs as it should",
		StillStarting:   "its startup probe has yet to pass",
		DoneSucceeded:   "it succeeded and is not to run again",
		DoneFailed:      "it failed and is not to run again",
		PodDeleted:      "the pod is being deleted",
		DoneInit:        "initialization is over",
		InitPassed:      "a later init container has been started, so it has done its part",
		DoneEphemeral:   "an ephemeral container runs once",
		WaitsForInit:    "an init container has to do its part first",
		WaitsForSandbox: "the pod gets a new sandbox first",
		WaitsForReset:   "all containers of the pod are removed first",
		EndsWithPod:     "the pod is stopped for good",
	}[r]
}
