package simulation

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
)

var starting = []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer}

// nothingAfterStop judges each agent by itself: a request of the node to stop a pod ends with the agent. Another rule
// judges pods that their source no longer wants.
func (tr *trace) nothingAfterStop(v *verdict) {
	type life struct {
		agent *agentSpan
		uid   types.UID
	}
	stopped := map[life]time.Time{}
	for _, w := range tr.works {
		l := life{tr.agents[w.agent], w.UID}
		if _, ok := stopped[l]; !ok && w.Type != podworkers.SyncPod && w.Type != podworkers.SyncTerminatingRuntimePod {
			stopped[l] = w.from
		}
	}
	for _, c := range tr.calls.Of(starting...) {
		uid := types.UID(c.PodUID)
		if tr.pods[uid] == nil {
			continue
		}
		if at, ok := stopped[life{tr.agentOf(tr.pods[uid], c.Start), uid}]; ok {
			v.want(!c.Start.After(at), "%v at %s after it was stopped at %s", c, clock(c.Start), clock(at))
		}
	}
}

func (tr *trace) nothingUnwanted(v *verdict) {
	for _, c := range tr.calls.Of(starting...) {
		known := tr.pods[types.UID(c.PodUID)]
		if known == nil || known.unwanted().IsZero() {
			continue
		}
		v.want(!c.Start.After(known.unwanted()), "%v at %s, unwanted since %s", c, clock(c.Start), clock(known.unwanted()))
	}
}

// stopsInTime checks the requests, not their effects: the runtime may be broken. The time counts
// from the first agent that received the request and could record it.
func (tr *trace) stopsInTime(v *verdict) {
	for _, c := range tr.calls.Of(critest.StopContainer) {
		known := tr.pods[types.UID(c.PodUID)]
		if known == nil || known.unwanted().IsZero() {
			continue
		}
		told := tr.toldToStop(known, c.Start)
		if told.IsZero() || !c.Start.After(told) {
			continue
		}
		timeout := tr.timeouts[c.N]
		end := c.Start.Add(time.Duration(timeout) * time.Second)
		v.want(timeout <= 2 || !end.After(told.Add(time.Duration(known.grace+2)*time.Second)),
			"%v at %s with %d s, told at %s to stop in %d s", c, clock(c.Start), timeout, clock(told), known.grace)
	}
}

// noted is how long an agent must live to have recorded a request.
const noted = 100 * time.Millisecond

// toldToStop returns when the first agent, of those started before a time, received the request to
// stop a pod, zero if none did.
func (tr *trace) toldToStop(pod *podSpan, until time.Time) time.Time {
	for _, a := range tr.agents {
		told := latest(a.told[pod.source], pod.unwanted(), a.readable)
		switch {
		case a.owner != pod.owner.name || a.told[pod.source].IsZero() || a.readable.IsZero():
		case !a.to.IsZero() && a.to.Before(told.Add(noted)):
		case tr.recordLost(pod.pod.UID, told, until):
		default:
			return told
		}
	}
	return time.Time{}
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}

func (tr *trace) killsAnswered(v *verdict) {
	for _, k := range tr.kills {
		v.want(!k.answered.IsZero() && k.answered.Before(k.at.Add(killPatience)), "the kill of %s at %s is never answered", k.uid, clock(k.at))
		if k.err != nil || k.answered.IsZero() {
			continue
		}
		for _, i := range tr.of(k.uid) {
			kept := i.Started.Before(k.answered) && !i.runsAt(k.answered)
			v.want(kept || tr.recordLost(k.uid, k.at, i.Started), "%v, its kill was answered at %s", i, clock(k.answered))
		}
	}
}

// sidecarsLast judges pods that are stopped while all their containers run.
func (tr *trace) sidecarsLast(v *verdict) {
	for _, c := range tr.calls.Of(critest.StopContainer) {
		known := tr.pods[types.UID(c.PodUID)]
		timeout := tr.timeouts[c.N]
		if known == nil || known.unwanted().IsZero() || c.Start.Before(known.unwanted()) || !strings.HasPrefix(c.Container, "s") || timeout <= 2 {
			continue
		}
		for _, i := range tr.of(types.UID(c.PodUID)) {
			if strings.HasPrefix(i.Container, "c") {
				v.want(!i.runsAt(c.Start), "%v at %s with %d s while %v", c, clock(c.Start), timeout, i)
			}
		}
	}
}
