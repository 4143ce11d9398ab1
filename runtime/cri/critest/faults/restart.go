package faults

import "time"

// RestartEffect is the effect of a restart of the runtime on running objects.
type RestartEffect uint8

const (
	// EffectNone is as before.
	EffectNone RestartEffect = iota
	// EffectStopped is no longer ready, for a sandbox; exited with code 255 and reason
	// Unknown, for a running container, whose process is dead.
	EffectStopped
	// EffectRemoved is no longer known at all; a container's process is dead. A sandbox
	// takes its containers along.
	EffectRemoved
	// EffectUnknown is a container of UNKNOWN state whose process lives. For a
	// sandbox it is Lost.
	EffectUnknown
)

// Restart describes a restart of the runtime, or of the whole machine.
type Restart struct {
	// Down is how long all calls answer Unavailable.
	Down time.Duration
	// Disconnect also breaks the connections and lets no new ones in while the
	// runtime is down, so that clients go through their reconnection.
	Disconnect            bool
	Sandboxes, Containers RestartEffect
}

// View is a view of a container or sandbox.
type View uint8

// The views that can disagree. They can be combined.
const (
	InList   View = 1 << iota // ListContainers, ListPodSandbox
	InStatus                  // ContainerStatus, PodSandboxStatus: NotFound
)
