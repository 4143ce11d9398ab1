package simulation

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

func (tr *trace) initialised(v *verdict) {
	for _, uid := range tr.uids() {
		pod := tr.pods[uid].pod
		for _, i := range tr.of(uid) {
			if !strings.HasPrefix(i.Container, "c") {
				continue
			}
			for _, c := range pod.Spec.InitContainers {
				v.want(tr.initialisedBy(c, i), "%v before %s", i, c.Name)
			}
		}
	}
}

func (tr *trace) initialisedBy(c v1.Container, app *instance) bool {
	for _, i := range tr.of(types.UID(app.PodUID)) {
		if i.Container != c.Name || i.SandboxID != app.SandboxID || i.Started.After(app.Started) {
			continue
		}
		if c.RestartPolicy != nil || !i.Ended.IsZero() && !i.Ended.After(app.Started) && i.ExitCode == 0 {
			return true
		}
	}
	return false
}

func (tr *trace) aloneInSandbox(v *verdict) {
	for _, c := range tr.calls.Of(critest.RunPodSandbox) {
		for _, i := range tr.of(types.UID(c.PodUID)) {
			v.want(!i.runsAt(c.Start), "%v at %s while there is %v", c, clock(c.Start), i)
		}
	}
}

func (tr *trace) stoppedFirst(v *verdict) {
	stopped := map[string]bool{}
	for _, c := range tr.calls.Of(critest.StopPodSandbox, critest.RemovePodSandbox) {
		switch {
		case c.Err != nil:
		case c.Method == critest.StopPodSandbox:
			stopped[c.SandboxID] = true
		default:
			v.want(stopped[c.SandboxID], "%v at %s", c, clock(c.Start))
		}
	}
}

// outlived reports whether a pod has exceeded its activeDeadlineSeconds, counted from its first reported
// start.
func (tr *trace) outlived(pod *v1.Pod, at time.Time) bool {
	limit := pod.Spec.ActiveDeadlineSeconds
	i := slices.IndexFunc(tr.statuses, func(s published) bool { return s.uid == pod.UID })
	return limit != nil && i >= 0 && !at.Before(tr.statuses[i].at.Add(time.Duration(*limit)*time.Second))
}

// addressTime is how long a sandbox is given at least to get an address.
const addressTime = 5 * time.Second

// addressAwaited judges sandboxes that get their address late.
func (tr *trace) addressAwaited(v *verdict) {
	if !tr.quiet("calls go wrong", "restart runtime", "restart both", "sandbox lost") {
		return
	}
	made := map[string]critest.Call{}
	for _, c := range tr.calls.Of(critest.RunPodSandbox, critest.StopPodSandbox) {
		if c.Method == critest.RunPodSandbox && c.Err == nil && strings.Contains(c.Fault, "late address") {
			made[c.SandboxID] = c
		}
		known, before := tr.pods[types.UID(c.PodUID)], made[c.SandboxID]
		if c.Method != critest.StopPodSandbox || known == nil || !before.Done() || tr.asked(known.pod.UID) ||
			tr.outlived(known.pod, c.Start) || !known.unwanted().IsZero() && !known.unwanted().After(c.Start) {
			continue
		}
		v.want(c.Start.Sub(before.End) >= addressTime, "%v at %s, it was made at %s", c, clock(c.Start), clock(before.End))
	}
}

// toldFirst checks that the agent stops the containers of a sandbox before the sandbox, because the stop of a sandbox
// kills them. It judges only containers that the runtime had reported as running before the work that stops the
// sandbox began; the agent could not know others. A container that this work has stopped counts as a test of
// the rule. After the pod's deadline, a StopContainer call may have
// failed without reaching the runtime, because the runtime was unavailable.
func (tr *trace) toldFirst(v *verdict) {
	told := map[string]bool{}
	for _, c := range tr.calls.Of(critest.StopContainer, critest.StopPodSandbox) {
		if c.Method == critest.StopContainer {
			told[c.ContainerID] = true
			continue
		}
		work := tr.workAt(c)
		if work == nil || !c.Start.Before(work.Deadline) && tr.awayIn(work.from, c.Start) {
			continue
		}
		for _, i := range tr.of(types.UID(c.PodUID)) {
			at, shown := tr.shown[i.ContainerID]
			tested := i.runsAt(c.Start) || told[i.ContainerID] && i.runsAt(work.from)
			if i.SandboxID == c.SandboxID && tested && shown && at.Before(work.from) {
				v.want(told[i.ContainerID], "%v at %s, and nobody told %v", c, clock(c.Start), i)
			}
		}
	}
}

// awayIn reports whether the runtime was unavailable at some time between from and to.
func (tr *trace) awayIn(from, to time.Time) bool {
	return slices.ContainsFunc(tr.away, func(away span) bool { return away.from.Before(to) && away.to.After(from) })
}
