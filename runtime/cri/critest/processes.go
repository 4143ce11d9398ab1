package critest

import (
	"slices"
	"time"
)

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

// Processes returns the containers' processes in the order of their starts, the last
// Config.JournalLimit of them: what really ran, to compare with a journal and an agent's reports.
// It does not include handlers and probes.
func (r *Runtime) Processes() []Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Process, len(r.processes))
	for i, p := range r.processes {
		all[i] = *p
	}
	return all
}

// began notes a process that starts now. It must be called with mu held.
func (r *Runtime) began(c *container) {
	m := c.config.GetMetadata()
	c.ran = &Process{
		PodUID: c.sandbox.config.GetMetadata().GetUid(), SandboxID: c.sandbox.id, Container: m.GetName(), ContainerID: c.id, Attempt: m.GetAttempt(), Started: time.Now(),
	}
	r.processes = append(r.processes, c.ran)
	if limit := r.cfg.JournalLimit; limit > 0 && len(r.processes) > limit {
		r.processes = slices.Delete(r.processes, 0, len(r.processes)-limit)
	}
}
