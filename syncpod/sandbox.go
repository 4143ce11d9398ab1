package syncpod

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
)

// inUse is the sandbox that containers are started in.
type inUse struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	handler string
	// input is what the configuration was made of, groups and user namespace
	// included, which containers share.
	input sandbox.Input
	// ips are the pod's addresses, the primary first.
	ips []string
}

// sandboxKey is what a sandbox's failures hold up: no container has that key.
var sandboxKey = backoffKey{}

// useSandbox gets the pod a sandbox, the one it has or a new one.
func (w *work) useSandbox(ctx context.Context) error {
	held := w.memory.held(sandboxKey, time.Now())
	if held != nil && (w.plan.Sandbox.Create || !errors.Is(held, errNoAddress)) {
		w.fail(held)
		return held
	}
	failed := w.configureSandbox(ctx)
	if failed == nil && w.plan.Sandbox.Create {
		failed = w.createSandbox(ctx)
	}
	if failed == nil {
		w.memory.setupSucceeded(sandboxKey)
		return nil
	}
	w.holdUp(ctx, sandboxKey, failed)
	w.fail(failed)
	return failed
}

// holdUp makes a failed step wait before its next try, unless the failure says
// nothing of the step: that the agent gave up, or the runtime was away.
func (w *work) holdUp(ctx context.Context, key backoffKey, failed *StepError) {
	if ctx.Err() != nil || errors.Is(failed, cri.ErrUnavailable) || errors.Is(failed, cri.ErrCanceled) || !failed.RetryAt.IsZero() {
		return
	}
	failed.RetryAt = w.memory.setupFailed(key, failed, time.Now())
}

func (w *work) configureSandbox(ctx context.Context) *StepError {
	if w.config.Prepare != nil {
		input, err := w.config.Prepare.PreparePod(ctx, w.pod)
		if err != nil {
			return &StepError{Step: StepPrepare, Reason: ErrPreparePod, Err: err}
		}
		w.in.input = input
	}
	in := &w.in.input
	in.Pod, in.Attempt, in.LogsRoot = w.pod, w.plan.Sandbox.Attempt, w.config.LogsRoot
	in.NoCPUQuota, in.CPUPeriod = w.config.Node.NoCPUQuota, w.config.Node.CPUPeriod
	config, err := sandbox.Config(*in)
	if err == nil {
		w.in.handler, err = sandbox.RuntimeHandler(ctx, w.pod, w.config.RuntimeClasses)
	}
	if err != nil {
		w.eventf(w.pod, "", v1.EventTypeWarning, eventFailedCreateSandbox, "Failed to create pod sandbox: %v", err)
		return &StepError{Step: StepSandbox, Reason: ErrConfigPodSandbox, Err: err}
	}
	config.Labels = w.config.Owner.Mark(config.Labels)
	w.in.config, w.in.id, w.in.ips = config, w.plan.Sandbox.ID, w.podIPs()
	return nil
}

func (w *work) createSandbox(ctx context.Context) *StepError {
	began := time.Now()
	created, err := w.config.Sandboxes.Create(ctx, w.in.config, w.in.handler)
	w.config.Observer.SandboxCreated(w.pod, time.Since(began), err)
	if err != nil {
		if ctx.Err() == nil {
			w.eventf(w.pod, "", v1.EventTypeWarning, eventFailedCreateSandbox, "Failed to create pod sandbox: %s", withoutIDs(err, w.idNames()...))
		}
		return &StepError{Step: StepSandbox, Reason: ErrCreatePodSandbox, Err: err}
	}
	w.config.Log.Info("sandbox created", "pod", podName(w.pod), "podUID", w.pod.UID, "sandboxID", created.ID, "attempt", created.Attempt)
	w.in.id, w.in.config.Metadata.Attempt = created.ID, created.Attempt
	status, err := w.config.Statuses.PodStatus(ctx, w.pod.UID, w.status)
	if err != nil {
		return &StepError{Step: StepSandbox, Reason: ErrCreatePodSandbox, Err: err}
	}
	w.status = w.complete(status)
	w.in.ips = w.podIPs()
	if sb := status.LatestSandbox(); sb != nil && sb.Network != nil && len(w.in.ips) == 0 && !w.pod.Spec.HostNetwork {
		return &StepError{Step: StepSandbox, Reason: ErrCreatePodSandbox, Err: errNoAddress}
	}
	return nil
}

// errNoAddress holds a pod up whose network is not there yet. It may still come,
// so that the sandbox is not replaced before the wait is over (kubernetes #48510).
var errNoAddress = errors.New("the sandbox has no address yet")

// awaitsAddress reports whether the pod's sandbox is to be replaced for want of
// an address, and it is too early for that.
func (w *work) awaitsAddress() *StepError {
	if w.plan.KillReason != actions.SandboxNoAddress {
		return nil
	}
	held := w.memory.held(sandboxKey, time.Now())
	if held == nil || !errors.Is(held, errNoAddress) {
		return nil
	}
	return held
}

// podIPs are the addresses of the sandbox, or of the node for a pod in its network.
func (w *work) podIPs() []string {
	if w.pod.Spec.HostNetwork {
		return w.config.HostIPs
	}
	return w.status.IPs()
}
