package syncpod

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// gathering collects the facts that a decision depends on.
type gathering struct{ *work }

// gather collects the facts of the decision: the completed status, the pod's memory, its logs, and
// the results of the agent's parts. For a pod that must end it does not call those parts.
func (w gathering) gather(ctx context.Context) actions.Input {
	_, requested := actions.RestartAllRequested(w.pod, w.status)
	in := actions.Input{
		Pod: w.pod, Status: w.status, Probes: w.config.probeResults(w.pod.UID),
		RestartAll:     w.restartsAll(requested),
		Restarting:     ask(w.memory, func(p *memory.Pod) []runtime.ContainerID { return p.Containers.Restarting(w.status) }),
		StatusComplete: true,
		InFlight:       w.flights.names(),
		End:            w.end(),
	}
	if in.End == actions.ReasonNone {
		in.Started, in.AddressWait, in.Blocked = w.startedBefore(), w.addressWait(ctx), w.block(ctx)
		in.PostStartPending = ask(w.memory, func(p *memory.Pod) []runtime.ContainerID {
			return p.Instances.MarkedIn(w.status, memory.PostStartPending)
		})
		w.addHolds(&in, time.Now())
	}
	return in
}

// decide computes the plan, and stores its input for Explain.
func (w *work) decide(in actions.Input) actions.Plan {
	w.memory.setDecided(&in)
	plan := actions.Compute(in)
	if w.config.Decided != nil {
		w.config.Decided(in, plan)
	}
	return plan
}

// heldSteps are the failures that back off: those of the whole pod, of its sandbox, and of the starts and
// resizes of containers by name.
type heldSteps struct {
	pod, sandbox    *StepError
	starts, resizes map[string]*StepError
}

// hold converts a failure to the form that a decision takes.
func (e *StepError) hold(why actions.Reason) actions.Hold {
	return actions.Hold{Reason: why, Until: e.NotBefore, Message: e.Err.Error()}
}

// addHolds adds the back-offs that have not ended.
func (w gathering) addHolds(in *actions.Input, now time.Time) {
	if w.memory.holdsNothing() {
		return
	}
	if held := w.memory.held(sandboxKey, now); held != nil && w.held.sandbox == nil {
		w.held.sandbox, in.SandboxHold = held, held.hold(actions.FailureBackOff)
	}
	if fault := actions.SandboxFault(w.pod, w.status); fault != actions.ReasonNone && w.held.sandbox == nil {
		if held := w.memory.held(replacedKey(fault), now); held != nil {
			w.held.sandbox, in.SandboxHold = held, held.hold(actions.FailureBackOff)
		}
	}
	in.StartHolds, in.ResizeHolds = map[string]actions.Hold{}, map[string]actions.Hold{}
	w.held.starts, w.held.resizes = map[string]*StepError{}, map[string]*StepError{}
	for spec := range runtime.AllContainers(w.pod) {
		if held := w.memory.held(resizeKey(spec), now); held != nil {
			w.held.resizes[spec.Name], in.ResizeHolds[spec.Name] = held, held.hold(actions.FailureBackOff)
		}
		if held := w.memory.held(memory.KeyOf(spec), now); held != nil {
			w.held.starts[spec.Name], in.StartHolds[spec.Name] = held, held.hold(actions.FailureBackOff)
		} else if until, wait := w.crashWait(spec, in.Probes, now); wait {
			in.StartHolds[spec.Name] = actions.Hold{
				Reason: actions.CrashBackOff, Until: until,
				Message: "Back-off restarting failed container " + spec.Name + " in pod " + podref.Describe(w.pod),
			}
		}
	}
}

// crashWait returns until when a container has to wait that has ended, or that ends now
// because a probe has failed.
func (w gathering) crashWait(spec *v1.Container, probes map[runtime.ContainerID]actions.ProbeResults, now time.Time) (until time.Time, wait bool) {
	last := w.status.Latest(spec.Name)
	if last == nil {
		return time.Time{}, false
	}
	ended := last.FinishedAt
	if last.State != runtime.ContainerExited {
		if p := probes[last.ID]; p.Liveness != actions.ProbeFailure && p.Startup != actions.ProbeFailure {
			return time.Time{}, false
		}
		ended = now
	}
	w.memory.do(func(p *memory.Pod) { until, wait = p.Crashes.Preview(spec, last.ID, ended, now) })
	return until, wait
}

// end returns why the pod has to end, whatever its containers do.
func (w gathering) end() actions.Reason {
	switch {
	case w.pod.DeletionTimestamp != nil:
		return actions.PodDeleted
	case ask(w.memory, (*memory.Pod).Evicted) != nil:
		return actions.PodEvicted
	case w.report.ended(w.status):
		return actions.PodEnded
	}
	return actions.ReasonNone
}

// restartsAll reports whether all containers must restart.
func (w gathering) restartsAll(requested bool) bool {
	removed := !slices.ContainsFunc(w.status.Containers, w.mayRestart)
	return ask(w.memory, func(p *memory.Pod) bool { return p.RestartsAll(requested, removed) })
}

// mayRestart reports whether an instance is of an init or a regular container.
func (w gathering) mayRestart(c runtime.ContainerStatus) bool {
	ref, found := actions.FindContainer(w.pod, c.Name)
	return found && ref.Kind != actions.EphemeralContainer
}

// startedBefore returns the ephemeral containers that have been started and that the runtime
// does not have. Their logs are read once. Unreadable logs show nothing here; they fail the start.
func (w gathering) startedBefore() (names []string) {
	for i := range w.pod.Spec.EphemeralContainers {
		name := w.pod.Spec.EphemeralContainers[i].Name
		if w.status.Latest(name) == nil && w.scanLogs(name) == nil && w.memory.everStarted(name) {
			names = append(names, name)
		}
	}
	return names
}

// addressWait returns why the pod keeps a sandbox without an address. It returns the zero Hold if the
// sandbox has an address, or has lacked one for too long.
func (w gathering) addressWait(ctx context.Context) actions.Hold {
	if actions.SandboxFault(w.pod, w.status) != actions.SandboxNoAddress {
		if ask(w.memory, func(p *memory.Pod) bool { return p.Sandbox.EndWait(w.status) }) {
			w.memory.succeeded(sandboxKey)
		}
		return actions.Hold{}
	}
	if w.held.sandbox = w.awaitAddress(ctx); w.held.sandbox == nil {
		return actions.Hold{}
	}
	return w.held.sandbox.hold(actions.AddressPending)
}
