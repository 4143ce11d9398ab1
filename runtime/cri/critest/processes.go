package critest

import (
	"slices"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// Process is a process that ran in a container: see [journal.Process].
type Process = journal.Process

// Processes returns the processes of containers that really ran, ordered by their starts: all that still run, and with them
// at most Config.JournalLimit, unless more run. Compare them with a journal and with an agent's reports. It does not
// include handlers and probes.
func (r *Runtime) Processes() []Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Process, len(r.processes))
	for i, p := range r.processes {
		all[i] = *p
	}
	return all
}

// began records a process that starts now. It must be called with mu held.
func (r *Runtime) began(c *container) {
	m := c.config.GetMetadata()
	c.ran = &Process{
		PodUID: c.sandbox.config.GetMetadata().GetUid(), SandboxID: c.sandbox.id, Container: m.GetName(), ContainerID: c.id, Attempt: m.GetAttempt(), Started: time.Now(),
	}
	r.processes = append(r.processes, c.ran)
	if limit := r.cfg.JournalLimit; limit > 0 {
		excess := len(r.processes) - limit
		r.processes = slices.DeleteFunc(r.processes, func(p *Process) bool {
			if excess <= 0 || p.Ended.IsZero() {
				return false
			}
			excess--
			return true
		})
	}
}
