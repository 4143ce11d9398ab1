package syncpod

import (
	"context"
	"errors"
	"time"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/status"
)

// admitKey is the back-off key of rejections. No container has this key.
var admitKey = memory.Key{Resources: "admission"}

// admit returns whether the pod may run.
func (w gathering) admit(ctx context.Context) *Rejection {
	for _, check := range w.config.Extensions.Admit {
		if refused := check.AdmitPod(ctx, w.pod); refused != nil {
			return refused
		}
	}
	w.memory.succeeded(admitKey)
	return nil
}

// problem returns the rejection as the status reports it.
func (r *Rejection) problem() *status.Problem {
	if r == nil {
		return nil
	}
	return &status.Problem{Reason: status.Reason(r.Reason), Message: r.Message}
}

// block returns why the whole pod has to wait: it was not admitted, or it needs its own network and the
// node has none for a new sandbox.
func (w gathering) block(ctx context.Context) actions.Hold {
	if w.rejected = w.admit(ctx); w.rejected != nil {
		w.held.pod = w.rejected.wait(w.memory, time.Now())
		return w.held.pod.hold(actions.PodNotAdmitted)
	}
	if w.config.Extensions.Network == nil || w.pod.Spec.HostNetwork {
		return actions.Hold{}
	}
	err := w.config.Extensions.Network.NetworkReady(ctx)
	if err == nil {
		return actions.Hold{}
	}
	w.held.pod = &StepError{Step: stepNetwork, Reason: errNetworkNotReady, Err: err}
	return w.held.pod.hold(actions.NetworkNotReady)
}

// wait returns the error that a rejection causes. Admission is repeated with back-off, and results
// in between are ignored.
func (r *Rejection) wait(m *podMemory, now time.Time) *StepError {
	failed := &StepError{Step: stepAdmit, Reason: Reason(r.Reason), Err: errors.New(r.Message)}
	if held := m.held(admitKey, now); held != nil {
		return failed.waiting(held.NotBefore)
	}
	return failed.waiting(m.holdUp(admitKey, failed, now))
}

// wait carries out a blocked pod's plan. A block does not end the pod.
func (w syncing) wait(ctx context.Context) {
	if w.held.pod.Step == stepNetwork {
		w.warn(ctx, EventNetworkNotReady, "network is not ready: %v", w.held.pod.Err)
	}
	w.fail(w.held.pod)
	if w.plan.KillPod {
		w.stopAll(ctx, w.plan.KillReason.String())
	}
}
