package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// rule is a rule that every life must keep.
type rule struct {
	name  string
	check func(*trace, *verdict)
}

// verdict is how often a life put a rule to the test, and what broke it.
type verdict struct {
	judged int
	broken []string
}

// want takes one judgement.
func (v *verdict) want(kept bool, format string, args ...any) {
	v.judged++
	if !kept {
		v.broken = append(v.broken, fmt.Sprintf(format, args...))
	}
}

// rules are all rules, with their rows in the catalogue of failures.
var rules = []rule{
	{"C1: one running container of each name", (*trace).oneLive},
	{"C2: attempts grow", (*trace).attemptsGrow},
	{"C5: containers that may run once run once", (*trace).runsOnce},
	{"W1: no start after the stop of a pod", (*trace).nothingAfterStop},
	{"W1: the phase of a worker never goes back", (*trace).oneWay},
	{"W2: no start in a pod that no source wants", (*trace).nothingUnwanted},
	{"K1, W3: no stop gets more time than its pod has left", (*trace).stopsInTime},
	{"I2: each sandbox runs the init containers", (*trace).initialised},
	{"M3: no stop before the sources have reported", (*trace).nothingBeforeSource},
	{"T1: no phase goes back", (*trace).phases},
	{"T2: reported exit codes are those of the runtime", (*trace).exitCodes},
	{"C3: restart counts do not fall", (*trace).restartCounts},
	{"S7: no container runs when the next sandbox is created", (*trace).aloneInSandbox},
	{"S6: a sandbox is stopped before it is removed", (*trace).stoppedFirst},
	{"C9, K6: a sandbox stops after its containers", (*trace).toldFirst},
	{"E1: few calls while the runtime is away", (*trace).fewCallsAway},
	{"S1, S3, W4, W6, K6: every pod reaches its desired state", (*trace).arrives},
	{"M1: one running static pod of each name", (*trace).oneOfAName},
	{"M5: pods of other agents are untouched", (*trace).ownOnly},
	{"W9: a kill is answered after the last container has ended", (*trace).killsAnswered},
	{"K4, T6: containers that are reported as ended have ended", (*trace).endsAreTrue},
	{"T5: containers are ready only after a successful probe", (*trace).readyIsTrue},
	{"C6: postStart handlers run", (*trace).hooked},
	{"C10: containers have the resources that were accepted last", (*trace).resized},
	{"B1: restarts back off", (*trace).spaced},
	{"I5: sidecars stop last", (*trace).sidecarsLast},
	{"K1, W3, C9, E4: pods stop in time", (*trace).stopsSoon},
	{"B1: the back-off doubles", (*trace).waits},
	{"B2, S4: failed attempts back off", (*trace).triesSpaced},
	{"S4: the agent waits for the address of a sandbox", (*trace).addressAwaited},
	{"P3: every end of a container is reported", (*trace).endsAreTold},
	{"S3: a pod that has ended has run", (*trace).hadItsRun},
	{"M2: the newest version of a pod runs", (*trace).newestRuns},
	{"C11: ephemeral containers run once", (*trace).debugOnce},
	{"T3: a pod keeps its addresses", (*trace).addressesStay},
	{"S1, C4, E3, E5: wanted containers keep running", (*trace).staysUp},
	{"C12: the agent executes the plan that it prints", (*trace).asPlanned},
	{"R1, R3, R4: containers restart on time while the source of their objects or the registry is unavailable", (*trace).restartsInTheDark},
	{"B6: containers restart on time while an image is pulled, or a handler runs, for another container of their pod", (*trace).restartsBesideFlights},
	{"R5: nothing of a removed pod is on the node", (*trace).nothingStays},
	{"R5: a mount for a start ends with it", (*trace).pinsEnd},
	{"T7: a container that waits for a restart is reported as waiting until it runs", (*trace).steady},
}

func (tr *trace) asPlanned(v *verdict) {
	for _, a := range tr.agents {
		if a.plans == nil {
			continue
		}
		judged, broken := a.plans.Verdict()
		v.judged, v.broken = v.judged+judged, append(v.broken, broken...)
	}
}

func (tr *trace) uids() []types.UID { return slices.Sorted(maps.Keys(tr.pods)) }

// clock prints a time.
func clock(t time.Time) string { return t.Format("15:04:05.000") }

func (i *instance) String() string {
	return fmt.Sprintf("%s %s attempt %d (%.12s) from %s to %s", i.PodUID, i.Container, i.Attempt, i.ContainerID, clock(i.Started), clock(i.Ended))
}

func (tr *trace) oneLive(v *verdict) {
	for _, uid := range tr.uids() {
		last := map[string]*instance{}
		for _, i := range tr.of(uid) {
			if before := last[i.Container]; before != nil {
				v.want(!before.Overlaps(i.Process), "%v and %v", before, i)
			}
			last[i.Container] = i
		}
	}
}

func (tr *trace) attemptsGrow(v *verdict) {
	last := map[string]critest.Call{}
	for _, c := range tr.calls.Of(critest.CreateContainer) {
		if c.Err != nil || c.ContainerID == "" || !tr.livedOn(c) {
			continue // no agent received the answer
		}
		key := c.PodUID + " " + c.Container
		before, ok := last[key]
		if ok && before.ContainerID != c.ContainerID && !tr.recordLost(types.UID(c.PodUID), before.Start, c.Start) {
			v.want(before.Attempt < c.Attempt, "%v after %v", c, before)
		}
		last[key] = c
	}
}

// runsOnce accepts a second run only if no agent could know that the container had run before.
func (tr *trace) runsOnce(v *verdict) {
	for _, uid := range tr.uids() {
		known := tr.pods[uid]
		if known.pod.Spec.RestartPolicy != v1.RestartPolicyNever || known.changed {
			continue // another spec runs, regardless of the exit of the previous one
		}
		last := map[string]*instance{}
		for _, i := range tr.of(uid) {
			if strings.HasPrefix(i.Container, "s") || strings.HasPrefix(i.Container, "i") {
				continue // sidecars restart, and another sandbox is initialised again
			}
			before := last[i.Container]
			v.want(before == nil || !tr.knew(before, i.Started) || tr.recordLost(uid, before.Started, i.Started), "%v after %v", i, before)
			last[i.Container] = i
		}
	}
}

// knew reports whether an agent knew by then that an instance was started: the start call was
// answered to an agent that survived, or an agent has reported the instance. Otherwise the start
// was in flight when the agent or the runtime ended, or its answer was lost.
func (tr *trace) knew(i *instance, by time.Time) bool {
	for _, c := range tr.calls.Of(critest.StartContainer) {
		if c.ContainerID == i.ContainerID && c.Err == nil && c.Done() && tr.livedOn(c) {
			return true
		}
	}
	for _, s := range tr.statuses {
		if string(s.uid) == i.PodUID && !s.at.After(by) && tellsOfRun(s.status, i.ContainerID) {
			return true
		}
	}
	return false
}

// livedOn reports whether the agent that made a call still ran after its answer.
func (tr *trace) livedOn(c critest.Call) bool {
	known := tr.pods[types.UID(c.PodUID)]
	if known == nil {
		return false
	}
	a := tr.agentOf(known, c.Start)
	return a != nil && (a.to.IsZero() || a.to.After(c.End))
}

// tellsOfRun reports whether a status says that an instance runs or has ended.
func tellsOfRun(s v1.PodStatus, id string) bool {
	for _, c := range containerStatuses(s) {
		if c.State.Running != nil && strings.HasSuffix(c.ContainerID, "://"+id) {
			return true
		}
		for _, end := range ended(c) {
			if strings.HasSuffix(end.ContainerID, "://"+id) {
				return true
			}
		}
	}
	return false
}

func (tr *trace) oneWay(v *verdict) {
	last := map[string]podworkers.WorkType{}
	for _, w := range tr.works {
		if w.Type == podworkers.SyncTerminatingRuntimePod {
			continue
		}
		key := fmt.Sprint(w.agent, w.UID)
		if before, ok := last[key]; ok {
			v.want(w.Type >= before, "%s: %v after %v at %s", w.UID, w.Type, before, clock(w.from))
		}
		last[key] = w.Type
	}
}

func (tr *trace) nothingBeforeSource(v *verdict) {
	for _, c := range tr.calls.Of(critest.StopContainer, critest.StopPodSandbox, critest.RemoveContainer, critest.RemovePodSandbox) {
		known := tr.pods[types.UID(c.PodUID)]
		if known == nil {
			continue
		}
		a := tr.agentOf(known, c.Start)
		if a == nil {
			continue
		}
		told := a.told[known.source]
		v.want(!told.IsZero() && !c.Start.Before(told), "%v at %s, the agent began at %s", c, clock(c.Start), clock(a.from))
	}
}

// awayCalls is how many calls a second an agent may make in vain.
const awayCalls = 20

func (tr *trace) fewCallsAway(v *verdict) {
	for _, away := range tr.away {
		if away.to.Sub(away.from) < 5*time.Second {
			continue
		}
		from := away.from.Add(time.Second) // those in flight end at once
		n := tr.calls.Where(func(c critest.Call) bool { return c.Start.After(from) && c.Start.Before(away.to) }).Count()
		limit := awayCalls * int(away.to.Sub(from)/time.Second)
		v.want(n <= limit, "%d calls in %v from %s on", n, away.to.Sub(from), clock(from))
	}
}
