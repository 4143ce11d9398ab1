package syncpod

import (
	"context"
	"errors"
	"time"

	"github.com/podsync/podsync/syncpod/apistatus"
)

// admitKey is what a refusal holds up: no container has that key.
var admitKey = backoffKey{resources: "admission"}

// admit asks whether the pod may run. One that has had its run is not asked for.
func (w *work) admit(ctx context.Context) *Rejection {
	if w.isOver() {
		return nil
	}
	for _, check := range w.config.Extensions.Admit {
		if refused := check.AdmitPod(ctx, w.pod); refused != nil {
			return refused
		}
	}
	w.memory.backOffs.succeeded(admitKey)
	return nil
}

// problem is the refusal as a status has it.
func (r *Rejection) problem() *apistatus.Problem {
	if r == nil {
		return nil
	}
	return &apistatus.Problem{Reason: apistatus.Reason(r.Reason), Message: r.Message}
}

// block stops what runs of a pod that may not run. The pod is not ended by that,
// and asked for again at growing intervals; news of it in between counts for none.
func (w *work) block(ctx context.Context) {
	failed := &StepError{Step: StepAdmit, Reason: Reason(w.rejected.Reason), Err: errors.New(w.rejected.Message)}
	now := time.Now()
	if held := w.memory.backOffs.held(admitKey, now); held != nil {
		w.fail(failed.waiting(held.NotBefore))
	} else {
		w.fail(failed.waiting(w.memory.backOffs.failed(admitKey, failed, now)))
	}
	if live(w.status) {
		w.stopAll(ctx, "not admitted: "+w.rejected.Reason)
	}
}

// networkReady reports whether the pod can have a network. A pod on the node's
// own needs none.
func (w *work) networkReady(ctx context.Context) bool {
	if w.config.Extensions.Network == nil || w.pod.Spec.HostNetwork {
		return true
	}
	err := w.config.Extensions.Network.NetworkReady(ctx)
	if err == nil {
		return true
	}
	w.warn(ctx, eventNetworkNotReady, "network is not ready: %v", err)
	w.fail(&StepError{Step: StepNetwork, Reason: ErrNetworkNotReady, Err: err})
	return false
}
