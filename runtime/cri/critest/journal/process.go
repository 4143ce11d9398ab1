package journal

import "time"

// Process is what ran as a container, whatever was answered of it, and whether or
// not the container is still there.
type Process struct {
	PodUID, SandboxID      string
	Container, ContainerID string // name, and ID
	Attempt                uint32
	// Started and Ended are its whole time. Ended is zero while it runs.
	Started, Ended time.Time
	// ExitCode is what the runtime recorded of its end, seen or not.
	ExitCode int32
}

// Overlaps reports whether the two ran at the same time. One that began at the instant at which the
// other ended does not overlap it.
func (p Process) Overlaps(o Process) bool {
	return (p.Ended.IsZero() || o.Started.Before(p.Ended)) && (o.Ended.IsZero() || p.Started.Before(o.Ended))
}
