package podworkers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// KillPod asks for a pod to be stopped, as UpdatePod does with a Kill, and waits
// until it has stopped: nil says that no container of it runs and none will be
// started. A pod that has stopped before is answered at once.
//
// A pod is tried to be stopped for as long as it takes, and KillPod waits for as
// long as ctx lets it. The end of ctx ends only the waiting: the pod stops all the
// same. The error then wraps the cause of ctx's end, and what the last try to
// stop the pod failed with, if it did. ErrStopped says that Run ended before the
// pod had stopped; where Run is not called, nothing stops. The type of the update
// and Stop.ID are ignored.
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
	uid, _ := u.uid()
	failed := w.forgetRequest(id, uid)
	select {
	case err = <-answer:
		return err
	default:
		return stillStopping(fmt.Sprintf("pod %s is", uid), context.Cause(ctx), failed)
	}
}

// forgetRequest says that nobody waits for a request any more, and returns what
// the pod's last work failed with.
func (w *Workers) forgetRequest(id StopID, uid types.UID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.asked, id)
	if p := w.pods[uid]; p != nil {
		return p.err
	}
	return nil
}

// stillStopping is the error of who waits no longer.
func stillStopping(who string, cause, failed error) error {
	if failed == nil {
		return fmt.Errorf("podworkers: %s still stopping: %w", who, cause)
	}
	return fmt.Errorf("podworkers: %s still stopping: %w; last failure: %w", who, cause, failed)
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
