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
	id, err := w.update(u, answer)
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

// forgetRequest drops a request whose caller no longer waits, and returns the error of
// the pod's last work.
func (w *Workers) forgetRequest(id StopID, uid types.UID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.scheduler.requests.waiting, id)
	if p := w.scheduler.pods[uid]; p != nil {
		return p.err
	}
	return nil
}

// stillStopping is the error of a caller that waits no longer.
func stillStopping(who string, cause, failed error) error {
	if failed == nil {
		return fmt.Errorf("podworkers: %s still stopping: %w", who, cause)
	}
	return fmt.Errorf("podworkers: %s still stopping: %w; last failure: %w", who, cause, failed)
}

// requests are the stops whose callers wait for them. Workers.mu guards it.
type requests struct {
	waiting map[StopID]chan<- error
	last    StopID
}

// add returns a stop request for the Set, with an ID if answer is not nil. It does
// not write to r.
func (q *requests) add(r *StopRequest, answer chan<- error) *StopRequest {
	var own StopRequest
	if r != nil {
		own = *r
	}
	own.ID = 0
	if answer != nil {
		q.last++
		own.ID = q.last
		q.waiting[own.ID] = answer
	}
	return &own
}

// answer answers a request. Channels have room for one answer and get one, so it does
// not block.
func (q *requests) answer(id StopID, err error) {
	if answer, ok := q.waiting[id]; ok {
		delete(q.waiting, id)
		answer <- err
	}
}

func (q *requests) answerAll(err error) {
	for id := range q.waiting {
		q.answer(id, err)
	}
}
