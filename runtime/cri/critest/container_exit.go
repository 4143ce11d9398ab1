package critest

import (
	"fmt"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// An Exit is how a container ends by hand.
type Exit struct {
	Code            int32
	Reason, Message string // Reason "" is the runtime's own: Completed or Error
}

// ExitContainer ends a container's process: with OOMKilled and 137, say. It
// returns when the exit is recorded; a container without a process is an error.
func (r *Runtime) ExitContainer(id string, e Exit) error {
	r.mu.Lock()
	c := r.containers[id]
	if c == nil || !c.running {
		r.mu.Unlock()
		return errNoProcess(id)
	}
	c.ended = &e
	r.mu.Unlock()
	c.process.Signal(sh.SIGKILL)
	<-c.exited
	return nil
}

func errNoProcess(id string) error {
	return fmt.Errorf("critest: no running container has the ID %q", id)
}
