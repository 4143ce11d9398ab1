package journal

import "time"

// Process is a process that ran in a container. It is recorded whatever the runtime reported of it, and
// whether or not the container still exists.
type Process struct {
	PodUID, SandboxID      string
	Container, ContainerID string // name, and ID
	Attempt                uint32
	// Started and Ended are when the process really began and ended. Ended is zero while it runs.
	Started, Ended time.Time
	// ExitCode is the exit code that the runtime recorded, whether or not the agent has seen it.
	ExitCode int32
}

// Overlaps reports whether the two ran at the same time. If one began at the instant at which the other
// ended, they do not overlap.
func (p Process) Overlaps(o Process) bool {
	return (p.Ended.IsZero() || o.Started.Before(p.Ended)) && (o.Ended.IsZero() || p.Started.Before(o.Ended))
}
