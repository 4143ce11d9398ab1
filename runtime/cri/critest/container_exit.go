package critest

import (
	"fmt"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// An Exit describes the end of a container's process for ExitContainer.
type Exit struct {
	Code            int32
	Reason, Message string // an empty Reason is the runtime's own: Completed or Error
}

// ExitContainer ends a container's process, for example with OOMKilled and 137. It returns when the
// exit is recorded. It returns an error if the container has no process.
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
