package syncpod

import (
	"cmp"
	"context"
	"errors"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/memory"
)

// inUse is the sandbox that containers are started in.
type inUse struct {
	// usable is set when containers can be started in it.
	usable  bool
	id      string
	config  *runtimeapi.PodSandboxConfig
	handler string
	// input is the sandbox's configuration input, including groups and the user namespace, which
	// containers share.
	input sandbox.Input
	// ips are the pod's addresses, the primary first.
	ips []string
	// secrets gets the pull image secrets.
	secrets pullSecrets
	// outdated is set if the preparation has tried in vain to update volumes.
	outdated bool
}

// sandboxKey is the back-off key of a pod's sandbox. No container has this key.
var sandboxKey = memory.Key{}

// replacedKey is the back-off key of replacements of a pod's sandbox for one reason. A sandbox that needs a replacement for
// the reason for the last one would otherwise be replaced in each sync, without an error and without end.
func replacedKey(why actions.Reason) memory.Key {
	return memory.Key{Resources: "replaced: " + why.String()}
}

// sandboxing gets a pod its sandbox.
type sandboxing struct{ *work }

// useSandbox gets the pod a sandbox, the one it has or a new one.
func (w sandboxing) useSandbox(ctx context.Context) bool {
	failed := w.configureSandbox(ctx)
	if failed == nil && w.plan.Sandbox.Create {
		failed = w.createSandbox(ctx)
	}
	if failed == nil {
		w.memory.succeeded(sandboxKey)
		return true
	}
	w.holdUp(ctx, sandboxKey, failed)
	w.fail(failed)
	return false
}

// holdUp delays a failed step's next try, unless the step is not the failure's cause: the agent gave up, or the runtime
// was unavailable. If the same step keeps failing with Unavailable, the step itself crashes the runtime, and it is
// delayed, too.
func (o *observedPod) holdUp(ctx context.Context, key memory.Key, failed *StepError) {
	if ctx.Err() != nil || errors.Is(failed, cri.ErrCanceled) || !failed.NotBefore.IsZero() {
		return
	}
	if errors.Is(failed, cri.ErrUnavailable) && o.memory.excuse(key) {
		return
	}
	failed.NotBefore = o.memory.holdUp(key, failed, time.Now())
}

// configureSandbox prepares the node and computes the sandbox's configuration. A sandbox that exists keeps what it has.
func (w sandboxing) configureSandbox(ctx context.Context) *StepError {
	if !w.plan.Sandbox.Create {
		w.sandbox.id = w.plan.Sandbox.ID
	} else {
		w.memory.do((*memory.Pod).NeedRecord)
		w.record(ctx)
	}
	if failed := (&preparation{&w.observedPod, &w.sandbox, lowering(w).changesContainers()}).run(ctx); failed != nil {
		return failed
	}
	in := &w.sandbox.input
	in.Pod, in.Attempt, in.LogsRoot = w.pod, w.plan.Sandbox.Attempt, w.config.Node.LogsRoot
	in.NoCPUQuota, in.CPUPeriod = w.config.Node.Containers.NoCPUQuota, w.config.Node.Containers.CPUPeriod
	var err error
	if w.sandbox.handler, err = w.handler(ctx); err != nil {
		return w.notConfigured(ctx, err, err)
	}
	if namespaces := w.config.Extensions.UserNamespaces; namespaces != nil {
		if in.UserNamespace, err = namespaces.UserNamespace(ctx, w.pod, w.sandbox.handler); err != nil {
			return w.notConfigured(ctx, err, err)
		}
	}
	config, err := sandbox.GeneratePodSandboxConfig(*in)
	if err != nil {
		return w.notConfigured(ctx, err, cmp.Or(errors.Unwrap(err), err)) // an event names its pod
	}
	config.Labels = w.config.Owner.Mark(config.Labels)
	w.sandbox.config, w.sandbox.id, w.sandbox.ips = config, w.plan.Sandbox.ID, w.podIPs()
	return nil
}

// handler returns the runtime handler for the pod. The sandbox of a pod with a runtime class shows it, whatever has become
// of the class since then.
func (w sandboxing) handler(ctx context.Context) (string, error) {
	class := w.pod.Spec.RuntimeClassName
	for i := range w.status.Sandboxes {
		if sb := &w.status.Sandboxes[i]; class != nil && *class != "" && w.sandbox.id != "" && sb.ID == w.sandbox.id {
			return sb.RuntimeHandler, nil
		}
	}
	return sandbox.LookupRuntimeHandler(ctx, w.pod, w.config.Objects.RuntimeClasses)
}

// notConfigured reports that the sandbox's configuration cannot be computed.
func (w sandboxing) notConfigured(ctx context.Context, err, cause error) *StepError {
	w.warn(ctx, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %v", cause)
	return &StepError{Step: stepSandbox, Reason: errConfigPodSandbox, Err: err}
}

func (w sandboxing) createSandbox(ctx context.Context) *StepError {
	release, err := w.syncer.pace.Take(ctx, sandboxPriority)
	if err != nil {
		return &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: err}
	}
	defer release()
	began := time.Now()
	created, err := w.config.Parts.Sandboxes.Create(ctx, w.sandbox.config, w.sandbox.handler)
	err = w.memory.secrets.redactError(err) // it may be about containers in sandboxes that were to be removed
	w.config.Observer.SandboxCreated(w.pod, time.Since(began), err)
	if err != nil {
		w.warn(ctx, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %s", withoutIDs(err, w.idNames()...))
		return &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: err}
	}
	w.log(w.pod).Info("sandbox created", "sandboxID", created.ID, "attempt", created.Attempt)
	w.sandbox.id, w.sandbox.config.Metadata.Attempt = created.ID, created.Attempt
	if w.plan.Sandbox.ID != "" {
		w.memory.holdUp(replacedKey(w.plan.Sandbox.Reason), &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: replacedAgain(w.plan.Sandbox.Reason)}, time.Now())
	}
	w.memory.do(func(p *memory.Pod) { p.Sandbox.SetMade(created.ID) })
	return w.useCreated(ctx, created)
}

// useCreated records the new sandbox, and reports it.
func (w sandboxing) useCreated(ctx context.Context, created run.Created) *StepError {
	sb := runtime.SandboxStatus{ID: created.ID, State: runtime.SandboxReady, Attempt: created.Attempt, NetworkMode: runtime.NamespaceNode}
	if !w.pod.Spec.HostNetwork {
		var err error
		if sb, err = w.config.Parts.Statuses.SandboxStatus(ctx, created.ID); err != nil {
			w.warn(ctx, EventFailedPodSandBoxStatus, "Unable to get pod sandbox status: %s", withoutIDs(err, created.ID, "of the pod"))
			return &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: err}
		}
	}
	w.status = withSandbox(w.status, sb)
	w.sandbox.ips = w.podIPs()
	w.reportStatus(ctx, w.memory.lastFailed())
	if !w.pod.Spec.HostNetwork && sb.Network != nil && len(w.sandbox.ips) == 0 {
		w.memory.do(func(p *memory.Pod) { p.Sandbox.BeginWait(sb.ID) })
		w.reportNoAddress(ctx)
		return &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: errNoAddress}
	}
	return nil
}

// replacedAgain is the error of a sandbox that waits for its replacement because the last one had the same reason.
type replacedAgain actions.Reason

func (e replacedAgain) Error() string {
	return "the sandbox was replaced before, because " + actions.Reason(e).String() + ", and must be replaced again"
}

// withSandbox returns a status that has the sandbox.
func withSandbox(status *runtime.PodStatus, sb runtime.SandboxStatus) *runtime.PodStatus {
	with := *status
	with.Sandboxes = []runtime.SandboxStatus{sb}
	for _, other := range status.Sandboxes {
		if other.ID != sb.ID {
			with.Sandboxes = append(with.Sandboxes, other)
		}
	}
	return &with
}

// errNoAddress delays a pod whose network is not ready. The address may still appear, so the sandbox is not replaced
// before the end of the wait (kubernetes #48510).
var errNoAddress = errors.New("the sandbox has no address yet")

// awaitAddress returns a failure that delays the pod if it is too early to replace its sandbox because of a missing
// address. Each sandbox has the time of one back-off, because its network may still be set up, or the runtime may
// omit the address just once.
func (w gathering) awaitAddress(ctx context.Context) *StepError {
	held := w.memory.held(sandboxKey, time.Now())
	if held != nil && errors.Is(held, errNoAddress) {
		return held
	}
	if latest := w.status.LatestSandbox().ID; !ask(w.memory, func(p *memory.Pod) bool { return p.Sandbox.BeginWait(latest) }) {
		return nil
	}
	w.reportNoAddress(ctx)
	failed := &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: errNoAddress}
	w.holdUp(ctx, sandboxKey, failed)
	return failed.waiting(failed.NotBefore)
}

func (o *observedPod) reportNoAddress(ctx context.Context) {
	o.warn(ctx, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %v", errNoAddress)
}

// podIPs returns the addresses of the sandbox, or of the node for a pod in the node's network.
func (o *observedPod) podIPs() []string {
	if o.pod.Spec.HostNetwork {
		return o.config.Node.hostIPs()
	}
	return o.status.IPs()
}
