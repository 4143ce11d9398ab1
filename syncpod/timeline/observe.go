package timeline

import (
	"errors"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/probe"
)

// Observe makes an agent with this configuration report its events to the Timeline: it adds observers, and a Sink that
// forwards each status.
func (t *Timeline) Observe(c *agent.Config) {
	if c == nil {
		return
	}
	c.Sync.Sink = sink{t, c.Sync.Sink}
	c.Observe(agent.Observers{Sync: podObserver{Timeline: t}, Workers: workObserver{Timeline: t}, Probes: probeObserver{Timeline: t}})
}

// A workObserver records pod phases on the node.
type workObserver struct {
	podworkers.NopObserver
	*Timeline
}

func (o workObserver) PodSeen(uid types.UID, at time.Time) {
	o.with(uid, nil, func(r *record) {
		if len(r.entries) > 0 && !r.pod.Finished {
			return // the work on the pod began before the observer was attached
		}
		o.over = slices.DeleteFunc(o.over, func(other types.UID) bool { return other == uid })
		r.phase, r.pod.Finished, r.ending = podworkers.Syncing, false, ""
		r.state(entry{Kind: kindPhase, Name: string(v1.PodPending), Begin: at})
	})
}

func (o workObserver) PhaseChanged(uid types.UID, from, to podworkers.Phase) {
	o.with(uid, nil, func(r *record) {
		if to <= r.phase { // two steps of a short life may arrive in either order
			return
		}
		r.phase = to
		if to.HasFinished() && !r.pod.Finished { // a later step may arrive first
			r.endAll()
			r.pod.Finished = true
			o.over = append(o.over, uid)
		}
		switch to {
		case podworkers.Terminating:
			r.state(entry{Kind: kindPhase, Name: "Stopping", Reason: r.ending})
		case podworkers.Terminated:
			r.state(entry{Kind: kindPhase, Name: "Cleaning up"})
		case podworkers.Removing:
			r.state(entry{Kind: kindPhase, Name: "Removing"})
		case podworkers.Forgotten:
			r.endAll()
		}
	})
}

func (o workObserver) SyncStarted(w podworkers.Work) {
	if w.Pod == nil {
		return // the pod is unknown
	}
	o.with(w.UID, w.Pod, func(r *record) {
		if w.Type != podworkers.SyncTerminatingPod || r.ending != "" {
			return
		}
		r.ending = why(w, r.plan)
		if e := r.open[stateOf("")]; e != nil && r.phase == podworkers.Terminating {
			e.Reason = cut(r.ending)
		}
	})
}

// why returns the reason for which a pod is stopped.
func why(w podworkers.Work, plan actions.Plan) string {
	switch {
	case w.Report != nil:
		return w.Report.Reason
	case w.Pod.DeletionTimestamp != nil:
		return "it was deleted"
	case plan.TerminatesPod():
		return plan.KillReason.String()
	}
	return "it is not to run any more"
}

func (o workObserver) SyncEnded(w podworkers.Work, took time.Duration, err error) {
	if w.Pod == nil {
		return
	}
	o.with(w.UID, w.Pod, func(r *record) {
		r.failing("work", entry{Kind: kindWork, Name: w.Type.String(), Reason: reasons(err), Failed: err != nil})
	})
}

// reasons returns the steps' reasons in an error. The rest of the text may contain secrets.
func reasons(err error) string {
	var all []string
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) {
		case *syncpod.StepError:
			all = append(all, strings.TrimSpace(string(e.Reason)+" "+e.Container.Name))
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				walk(err)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	return strings.Join(slices.Compact(all), ", ")
}

// A podObserver records the work on pods.
type podObserver struct {
	syncpod.NopObserver
	*Timeline
}

// of calls do with the record of a pod whose spec is known.
func (o podObserver) of(pod *v1.Pod, do func(*record)) {
	if pod != nil {
		o.with(pod.UID, pod, do)
	}
}

func (o podObserver) PlanMade(pod *v1.Pod, plan actions.Plan) {
	o.of(pod, func(r *record) { r.plan = plan })
}

func (o podObserver) SandboxCreated(pod *v1.Pod, took time.Duration, err error) {
	o.of(pod, func(r *record) {
		r.took(entry{Kind: kindSandbox, Name: "Sandbox", Reason: r.plan.Sandbox.Reason.String(), Failed: err != nil}, took)
	})
}

// quick is the duration below which a volume's setup has no entry.
const quick = 10 * time.Millisecond

func (o podObserver) VolumeSetUp(pod *v1.Pod, volume *v1.Volume, took time.Duration, err error) {
	if err == nil && took < quick {
		return
	}
	o.of(pod, func(r *record) { r.took(entry{Kind: kindVolume, Name: volume.Name, Failed: err != nil}, took) })
}

func (o podObserver) ImagePulled(pod *v1.Pod, c actions.ContainerRef, name string, took time.Duration, err error) {
	e := entry{Container: c.Name, Kind: kindPull, Name: name, Failed: err != nil}
	if failed, ok := errors.AsType[*image.Error](err); ok {
		e.Reason = string(failed.Reason)
	}
	o.of(pod, func(r *record) { r.took(e, took) })
}

func (o podObserver) HookEnded(pod *v1.Pod, container string, hook syncpod.Hook, took time.Duration, err error) {
	o.of(pod, func(r *record) {
		r.took(entry{Container: container, Kind: kindHook, Name: string(hook), Failed: err != nil}, took)
	})
}

func (o podObserver) ContainerStarted(pod *v1.Pod, c actions.ContainerRef, took time.Duration, err error) {
	o.of(pod, func(r *record) {
		e := entry{Container: c.Name, Kind: kindStart, Name: "Start", Reason: r.whyStarted(c), Failed: err != nil}
		if failed := reasons(err); failed != "" {
			e.Reason = failed
		}
		r.without(r.took(e, took), kindPull, kindHook)
		if err == nil {
			r.endProbes(c.Name, time.Now())
		}
	})
}

func (o podObserver) ContainerStopped(pod *v1.Pod, container string, took time.Duration, err error) {
	o.of(pod, func(r *record) {
		e := r.took(entry{Container: container, Kind: kindStop, Name: "Stop", Reason: r.whyStopped(container), Failed: err != nil}, took)
		r.without(e, kindHook)
		if err == nil {
			r.endProbes(container, time.Now())
		}
	})
}

// without removes from an entry the parts that have their own entries: a start excludes the pull
// before it and the handler after it, a stop the handler before it.
func (r *record) without(e *entry, kinds ...kind) {
	for _, other := range r.entries {
		if other.Container != e.Container || !slices.Contains(kinds, other.Kind) || other.Begin.Before(e.Begin) || other.End.After(e.End) {
			continue
		}
		if other.Name == string(syncpod.PostStart) {
			e.End = other.Begin
		} else {
			e.Begin = other.End
		}
	}
}

func (r *record) whyStarted(c actions.ContainerRef) string {
	for _, s := range r.plan.Start {
		if s.Container == c {
			return s.Reason.String()
		}
	}
	return ""
}

func (r *record) whyStopped(container string) string {
	if r.ending != "" {
		return r.ending
	}
	for _, s := range r.plan.Kill {
		if s.Container.Name == container {
			return s.Reason.String()
		}
	}
	for _, s := range r.plan.Clear {
		if s.Container.Name == container {
			return s.Reason.String()
		}
	}
	for _, s := range r.plan.Reset {
		if s.Container.Name == container {
			return s.Reason.String()
		}
	}
	if r.plan.KillPod {
		return r.plan.KillReason.String()
	}
	return ""
}

// A probeObserver records probes.
type probeObserver struct {
	probe.NopObserver
	*Timeline
}

// Checked records failing probes until they succeed.
func (o probeObserver) Checked(c probe.Check) {
	if c.Outcome == actions.ProbeUnknown {
		return
	}
	o.with(c.Pod.UID, c.Pod, func(r *record) {
		r.failing(probeOf(c.Container, c.Kind), entry{
			Container: c.Container, Kind: kindProbe, Name: string(c.Kind) + " probe", Reason: "it fails", Failed: c.Outcome == actions.ProbeFailure,
		})
	})
}

// endProbes ends the entries of an instance's probes that began before a time: the next instance
// may be probed before a status reports the exit of this one.
func (r *record) endProbes(container string, at time.Time) {
	for _, kind := range []probe.Kind{probe.Startup, probe.Liveness, probe.Readiness} {
		if e := r.open[probeOf(container, kind)]; e != nil && e.Begin.Before(at) {
			r.failing(probeOf(container, kind), entry{})
		}
	}
}

func probeOf(container string, kind probe.Kind) string {
	return string(kind) + " probe of " + container
}
