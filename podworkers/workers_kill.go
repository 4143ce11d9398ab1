package podworkers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// KillPod stops a pod, as UpdatePod does with a Kill, and waits until it has stopped. A nil error means that no
// container in the pod runs, and none will start. If the pod has stopped before, KillPod returns at once.
//
// The workers retry the stop until it succeeds. The end of ctx ends only the wait. The error then wraps the cause
// of ctx, and the last attempt's error if that failed. ErrStopped means that Run ended before the pod had
// stopped; pods stop only during Run. The type of the update and Stop.ID are ignored.
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
// the pod's last call.
func (w *Workers) forgetRequest(id StopID, uid types.UID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.scheduler.requests.waiting, id)
	if p := w.scheduler.pods[uid]; p != nil {
		return p.err
	}
	return nil
}

// stillStopping returns the error for a caller that no longer waits.
func stillStopping(who string, cause, failed error) error {
	if failed == nil {
		return fmt.Errorf("podworkers: %s still stopping: %w", who, cause)
	}
	return fmt.Errorf("podworkers: %s still stopping: %w; last failure: %w", who, cause, failed)
}

// requests are the stop requests with waiting callers. Workers.mu guards them.
type requests struct {
	waiting map[StopID]chan<- error
	last    StopID
}

// add returns a copy of r for the Set. The copy has an ID if answer is not nil.
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

// answer answers a request. It does not block, because each channel has a buffer of one and gets one answer.
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
