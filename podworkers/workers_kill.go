package podworkers

import (
	"context"
	"fmt"
)

// KillPod asks for a pod to be stopped, as UpdatePod does with a Kill, and waits
// until it has stopped: nil says that no container of it runs and none will be
// started. A pod that has stopped before is answered at once.
//
// The end of ctx ends only the waiting, with an error that wraps its cause: the
// pod stops all the same. ErrStopped says that Run ended before the pod had
// stopped. The type of the update and Stop.ID are ignored.
func (w *Workers) KillPod(ctx context.Context, u Update) error {
	u.Type = Kill
	answer := make(chan error, 1)
	id, err := w.take(u, answer)
	if err != nil {
		return err
	}
	select {
	case err = <-answer:
		return err
	case <-ctx.Done():
	}
	w.mu.Lock()
	delete(w.asked, id)
	w.mu.Unlock()
	select {
	case err = <-answer:
		return err
	default:
		uid, _ := u.uid()
		return fmt.Errorf("podworkers: pod %s is still stopping: %w", uid, context.Cause(ctx))
	}
}

// request returns a stop request for the Set, and remembers who waits for it.
// The caller's own is not written to.
func (w *Workers) request(r *StopRequest, answer chan<- error) *StopRequest {
	var own StopRequest
	if r != nil {
		own = *r
	}
	own.ID = 0
	if answer != nil {
		w.lastID++
		own.ID = w.lastID
		w.asked[own.ID] = answer
	}
	return &own
}

// answer tells who waits for a request how it ended. Channels have room for one
// answer and get one, so it does not block.
func (w *Workers) answer(id StopID, err error) {
	if answer, ok := w.asked[id]; ok {
		delete(w.asked, id)
		answer <- err
	}
}
