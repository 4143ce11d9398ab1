package faults

import "time"

// RestartEffect is a runtime restart's effect on running objects.
type RestartEffect uint8

const (
	// EffectNone changes nothing.
	EffectNone RestartEffect = iota
	// EffectStopped makes a sandbox not ready. A running container has exited with code 255 and reason
	// Unknown; its process is dead.
	EffectStopped
	// EffectRemoved removes the object from the runtime; a container's process is dead. A removed
	// sandbox's containers are removed, too.
	EffectRemoved
	// EffectUnknown makes the state of a container UNKNOWN, while its process lives. For a sandbox it is
	// EffectStopped.
	EffectUnknown
)

// Restart describes a restart of the runtime, or of the whole machine.
type Restart struct {
	// Down is how long all calls return Unavailable.
	Down time.Duration
	// Disconnect also closes all connections and rejects new ones while the runtime is down, so that
	// clients must reconnect.
	Disconnect            bool
	Sandboxes, Containers RestartEffect
}

// View is a way to read the state of a container or sandbox.
type View uint8

// The views that can disagree. They can be combined with |.
const (
	InList   View = 1 << iota // ListContainers, ListPodSandbox
	InStatus                  // ContainerStatus, PodSandboxStatus: NotFound
)
