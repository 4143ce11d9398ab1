package syncpod

import (
	"context"
	"slices"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// gather collects all that the decision on the pod depends on: the completed status, what
// is remembered, what the logs show, and what the parts of the agent answer. A pod that has
// to end does not ask them.
func (w *work) gather(ctx context.Context) actions.Input {
	_, requested := actions.RestartAllRequested(w.pod, w.status)
	in := actions.Input{
		Pod: w.pod, Status: w.status, Probes: w.config.probeResults(w.pod.UID),
		RestartAll:     w.memory.restartsAll(requested, !slices.ContainsFunc(w.status.Containers, w.mayRestart)),
		StatusComplete: true,
		End:            w.end(),
	}
	if in.End == actions.ReasonNone {
		in.Started, in.AddressWait, in.Blocked = w.startedBefore(), w.addressWait(ctx), w.block(ctx)
	}
	return in
}

// end returns why the pod has to end, whatever its containers do.
func (w *work) end() actions.Reason {
	switch {
	case w.pod.DeletionTimestamp != nil:
		return actions.PodDeleted
	case w.memory.evictedFor() != nil:
		return actions.PodEvicted
	case w.report.ended(w.status):
		return actions.PodEnded
	}
	return actions.ReasonNone
}

// mayRestart reports whether an instance is of an init or a regular container.
func (o *observedPod) mayRestart(c runtime.ContainerStatus) bool {
	ref, found := actions.FindContainer(o.pod, c.Name)
	return found && ref.Kind != actions.EphemeralContainer
}

// startedBefore returns the ephemeral containers that have been started and of which
// nothing is left in the runtime. Their logs are read once. Logs that cannot be read show
// nothing here: they fail the start.
func (o *observedPod) startedBefore() (names []string) {
	for i := range o.pod.Spec.EphemeralContainers {
		name := o.pod.Spec.EphemeralContainers[i].Name
		if o.status.Latest(name) == nil && o.scanLogs(name) == nil && o.memory.container(name).everStarted {
			names = append(names, name)
		}
	}
	return names
}

// addressWait returns why the pod's sandbox is to be kept although it has no address,
// nothing if it has one, or has been without for too long.
func (w *work) addressWait(ctx context.Context) actions.Hold {
	if actions.SandboxFault(w.pod, w.status) != actions.SandboxNoAddress {
		if w.memory.sandbox.endWait(w.status) {
			w.memory.backOffs.succeeded(sandboxKey)
		}
		return actions.Hold{}
	}
	if w.noAddress = w.awaitAddress(ctx); w.noAddress == nil {
		return actions.Hold{}
	}
	return actions.Hold{Reason: actions.AddressPending, Until: w.noAddress.NotBefore}
}
