package syncpod

import (
	"context"
	"slices"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// gather collects all that the decision on the pod depends on: the completed status, what
// is remembered, and what the logs show.
func (o *observedPod) gather(ctx context.Context) actions.Input {
	_, requested := actions.RestartAllRequested(o.pod, o.status)
	return actions.Input{
		Pod: o.pod, Status: o.status, Probes: o.config.probeResults(o.pod.UID),
		RestartAll:     o.memory.restartsAll(requested, !slices.ContainsFunc(o.status.Containers, o.mayRestart)),
		StatusComplete: true,
		Started:        o.startedBefore(),
		AddressWait:    o.addressWait(ctx),
	}
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
func (o *observedPod) addressWait(ctx context.Context) actions.Hold {
	if actions.SandboxFault(o.pod, o.status) != actions.SandboxNoAddress {
		if o.memory.sandbox.endWait(o.status) {
			o.memory.backOffs.succeeded(sandboxKey)
		}
		return actions.Hold{}
	}
	if o.noAddress = o.awaitAddress(ctx); o.noAddress == nil {
		return actions.Hold{}
	}
	return actions.Hold{Reason: actions.AddressPending, Until: o.noAddress.NotBefore}
}
