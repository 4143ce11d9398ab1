package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var phaseOrder = map[v1.PodPhase]int{v1.PodPending: 1, v1.PodRunning: 2, v1.PodSucceeded: 3, v1.PodFailed: 3}

func (tr *trace) phases(v *verdict) {
	last := map[types.UID]published{}
	for _, s := range tr.statuses {
		if before, ok := last[s.uid]; ok && !tr.recordLost(s.uid, before.at, s.at) {
			was, is := before.status.Phase, s.status.Phase
			v.want(phaseOrder[is] >= phaseOrder[was] && (phaseOrder[was] < 3 || is == was), "%s: %s after %s at %s", s.uid, is, was, clock(s.at))
		}
		last[s.uid] = s
	}
}

// ended returns the exits in a status, the current one and the last one.
func ended(s v1.ContainerStatus) []*v1.ContainerStateTerminated {
	var all []*v1.ContainerStateTerminated
	for _, state := range []*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if state != nil {
			all = append(all, state)
		}
	}
	return all
}

func containerStatuses(s v1.PodStatus) []v1.ContainerStatus {
	return append(slices.Clone(s.InitContainerStatuses), s.ContainerStatuses...)
}

func (tr *trace) exitCodes(v *verdict) {
	told := reportedEnds{codes: map[string]int32{}, known: map[string]time.Time{}, attempts: tr.attempts()}
	for _, s := range tr.statuses {
		for _, c := range containerStatuses(s.status) {
			now, last := c.State.Terminated, c.LastTerminationState.Terminated
			twice := now != nil && last != nil && last.ContainerID == now.ContainerID && last.ContainerID != ""
			v.want(!twice, "%s %s: its end is told as that before it, too, at %s", s.uid, c.Name, clock(s.at))
			for _, end := range ended(c) {
				tr.exitCode(v, told, s, c, end)
			}
		}
	}
}

// reportedEnds are the exits that earlier statuses reported.
type reportedEnds struct {
	codes map[string]int32     // by container ID
	known map[string]time.Time // when those with an ID were first reported, by pod, container and attempt
	// attempts has the attempts of the started containers, by container ID.
	attempts map[string]uint32
}

// attempts knows the containers that the runtime refused to start, too.
func (tr *trace) attempts() map[string]uint32 {
	all := map[string]uint32{}
	for _, c := range tr.calls.Of(critest.StartContainer) {
		all[c.ContainerID] = c.Attempt
	}
	for id, i := range tr.instances {
		all[id] = i.Attempt
	}
	return all
}

// exitCode judges one end in a status.
func (tr *trace) exitCode(v *verdict, told reportedEnds, s published, c v1.ContainerStatus, end *v1.ContainerStateTerminated) {
	attempt := c.RestartCount
	_, current, _ := strings.Cut(c.ContainerID, "://")
	if i := tr.instances[current]; i != nil { // restarts that did not happen may have been counted
		attempt = int32(i.Attempt)
	}
	if end == c.LastTerminationState.Terminated && (c.State.Running != nil || c.State.Terminated != nil) {
		attempt--
	}
	_, id, _ := strings.Cut(end.ContainerID, "://")
	truth := tr.instances[id]
	if of, started := told.attempts[id]; started {
		attempt = int32(of)
	}
	key := fmt.Sprint(s.uid, c.Name, attempt)
	if id == "" {
		at, known := told.known[key]
		v.want(!known || tr.recordLost(s.uid, at, s.at), "%s %s: a guess of %d (%s) at %s, its end was told before", s.uid, c.Name, end.ExitCode, end.Reason, clock(s.at))
		return
	}
	if code, ok := told.codes[id]; ok {
		v.want(code == end.ExitCode, "%s %s: %d after %d at %s", s.uid, c.Name, end.ExitCode, code, clock(s.at))
	} else if truth != nil && !truth.Ended.IsZero() {
		v.want(truth.ExitCode == end.ExitCode, "%v ended with %d, told is %d at %s", truth, truth.ExitCode, end.ExitCode, clock(s.at))
	}
	told.codes[id] = end.ExitCode
	keepFirst(told.known, key, s.at)
}

// keepFirst keeps the earliest time of a key. Calls are in the order of
// their starts, and may end in another order.
func keepFirst(times map[string]time.Time, key string, at time.Time) {
	if first, known := times[key]; !known || at.Before(first) {
		times[key] = at
	}
}

func (tr *trace) restartCounts(v *verdict) {
	type told struct {
		count int32
		at    time.Time
	}
	last := map[string]told{}
	for _, s := range tr.statuses {
		for _, c := range containerStatuses(s.status) {
			key := string(s.uid) + " " + c.Name
			if before, ok := last[key]; ok && !tr.recordLost(s.uid, before.at, s.at) {
				v.want(c.RestartCount >= before.count, "%s: %d after %d at %s", key, c.RestartCount, before.count, clock(s.at))
			}
			last[key] = told{c.RestartCount, s.at}
		}
	}
}

// endsAreTrue compares reported exits that have a container ID with the truth.
func (tr *trace) endsAreTrue(v *verdict) {
	for _, s := range tr.statuses {
		for _, c := range containerStatuses(s.status) {
			for _, end := range ended(c) {
				_, id, _ := strings.Cut(end.ContainerID, "://")
				if i := tr.instances[id]; i != nil {
					v.want(!i.Ended.IsZero() && !i.Ended.After(s.at), "%v, told to have ended at %s", i, clock(s.at))
				}
			}
		}
	}
}

func (tr *trace) readyIsTrue(v *verdict) {
	succeeded := map[string]time.Time{} // the first probe, by container ID
	for _, c := range tr.calls.Of(critest.ExecSync) {
		answer, ok := c.Response().(*runtimeapi.ExecSyncResponse)
		if ok && answer.ExitCode == 0 {
			keepFirst(succeeded, c.ContainerID, c.End)
		}
	}
	for _, s := range tr.statuses {
		for _, c := range s.status.ContainerStatuses {
			if !c.Ready || !tr.probed(s.uid, c.Name) {
				continue
			}
			_, id, _ := strings.Cut(c.ContainerID, "://")
			at, ok := succeeded[id]
			v.want(ok && !at.After(s.at), "%s %s: ready at %s without a probe that has succeeded", s.uid, c.Name, clock(s.at))
		}
	}
}

func (tr *trace) probed(uid types.UID, container string) bool {
	return slices.ContainsFunc(tr.pods[uid].pod.Spec.Containers, func(c v1.Container) bool {
		return c.Name == container && c.ReadinessProbe != nil
	})
}

// finished reports whether no regular container of a pod will run again: its sidecars are stopped
// then, before the phase is terminal.
func finished(pod *v1.Pod, status v1.PodStatus) bool {
	if phaseOrder[status.Phase] == 3 {
		return true
	}
	restarts := func(c v1.ContainerStatus) bool {
		return c.State.Terminated == nil || pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure && c.State.Terminated.ExitCode != 0
	}
	return pod.Spec.RestartPolicy != v1.RestartPolicyAlways && len(status.ContainerStatuses) > 0 && !slices.ContainsFunc(status.ContainerStatuses, restarts)
}

// steady checks that a container that is reported as waiting for a restart is not reported as
// terminated with the same exit again before it has run. A run that the runtime has lost before a status
// showed it counts. There are two exceptions: the status of a pod that is stopping
// or has finished shows the exit of each container, and a new agent does not know the statuses of the previous
// one, which may have reported at the instant at which it starts.
func (tr *trace) steady(v *verdict) {
	type told struct {
		v1.ContainerStatus
		agent *agentSpan
		at    time.Time
	}
	last := map[string]told{}
	for _, s := range tr.statuses {
		known := tr.pods[s.uid]
		agent := tr.agentOf(known, s.at)
		for _, c := range containerStatuses(s.status) {
			key := string(s.uid) + " " + c.Name
			before := last[key]
			last[key] = told{c, agent, s.at}
			end, now := before.LastTerminationState.Terminated, c.State.Terminated
			stops := finished(known.pod, s.status) || tr.asked(s.uid) || !known.unwanted().IsZero() && !known.unwanted().After(s.at)
			if before.State.Waiting == nil || before.State.Waiting.Reason != "CrashLoopBackOff" || end == nil || before.agent != agent || agent != nil && !before.at.After(agent.from) || stops {
				continue
			}
			ran := slices.ContainsFunc(tr.of(s.uid), func(i *instance) bool {
				return i.Container == c.Name && i.Started.After(before.at) && !i.Started.After(s.at)
			})
			v.want(ran || now == nil || now.ContainerID != end.ContainerID, "%s: at %s its end is its state, which it waited after", key, clock(s.at))
		}
	}
}
