package agenttest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var statusPromises = []Promise{
	{
		Name: "exit-codes", Sentence: "The reported exit code of a container is the exit code of its process.",
		Source: docPod, Breaks: "kubernetes #104107",
		Evidence: "Terminated states with a container ID in reported statuses, and the processes. A state without an ID does not count, nor the state of a container whose exit no agent could observe.",
		check:    (*history).exitCodes,
	},
	{
		Name: "ends-are-true", Sentence: "A running container is not reported as terminated.",
		Source: docPod, Breaks: "kubernetes #88440",
		Evidence: "The same statuses, and the processes that ran at their times.",
		check:    (*history).endsAreTrue,
	},
	{
		Name: "restart-counts", Sentence: "The restart count of a container does not decrease.",
		Source: docPod, Breaks: "kubernetes #99748",
		Evidence: "Statuses of one pod, in order, until the pod is removed. The count may start again if the runtime has lost records, as the API allows.",
		check:    (*history).restartCounts,
	},
	{
		Name: "phases", Sentence: "A pod that is Succeeded or Failed keeps that phase, and a pod that was Running is not Pending again.",
		Source: docLifecycle, Breaks: "kubernetes #58711",
		Evidence: "Statuses of one pod, in order, until the pod is removed.",
		check:    (*history).phases,
	},
	{
		Name: "ready-is-true", Sentence: "A container with a readiness probe is not reported as ready before a probe of the same instance has succeeded.",
		Source: docProbes, Breaks: "kubernetes #78733",
		Evidence: "Statuses, and results of ExecSync.",
		check:    (*history).readyIsTrue,
	},
}

func containerStatuses(s v1.PodStatus) []v1.ContainerStatus {
	return slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
}

// ends returns the terminations in a container's status, by ID of the container.
func ends(c v1.ContainerStatus) map[string]*v1.ContainerStateTerminated {
	all := map[string]*v1.ContainerStateTerminated{}
	for _, end := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if end == nil {
			continue
		}
		if id := bareID(end.ContainerID); id != "" {
			all[id] = end
		}
	}
	return all
}

func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

// eachEnd calls judge for each reported exit of a process.
func (h *history) eachEnd(judge func(t reported, c v1.ContainerStatus, p critest.Process, end *v1.ContainerStateTerminated)) {
	for _, t := range h.statuses {
		for _, c := range containerStatuses(t.status) {
			for id, end := range ends(c) {
				if p, ran := h.process(id); ran {
					judge(t, c, p, end)
				}
			}
		}
	}
}

func (h *history) exitCodes(v *verdict) {
	h.eachEnd(func(t reported, c v1.ContainerStatus, p critest.Process, end *v1.ContainerStateTerminated) {
		if p.Ended.IsZero() || h.unseen(p) {
			return
		}
		v.want(end.ExitCode == p.ExitCode, at{uid: t.uid, t: t.at, container: p.ContainerID}, "%s exited with %d, and %d was reported", c.Name, p.ExitCode, end.ExitCode)
	})
}

// unseen reports whether the runtime itself may be unable to report how a process ended.
func (h *history) unseen(p critest.Process) bool {
	return slices.ContainsFunc(h.restarts, func(r runtimeRestart) bool {
		return r.effect != "" && !r.from.Before(p.Started) && !r.from.After(p.Ended.Add(longestBackOff))
	})
}

func (h *history) endsAreTrue(v *verdict) {
	h.eachEnd(func(t reported, c v1.ContainerStatus, p critest.Process, _ *v1.ContainerStateTerminated) {
		v.want(!runsAt(p, t.at), at{uid: t.uid, t: t.at, container: p.ContainerID}, "%s was reported as terminated, and still ran", c.Name)
	})
}

// eachChange calls judge for each reported status of a pod and its predecessor. Whenever a pod is
// added again after its removal, the statuses may start over once, possibly not before the old pod
// has ended.
func (h *history) eachChange(v *verdict, judge func(before, t reported) (wrong string)) {
	last, begun := map[types.UID]reported{}, map[types.UID]int{}
	for _, t := range h.statuses {
		l := h.pods[t.uid]
		if l == nil {
			continue
		}
		before, ok := last[t.uid]
		last[t.uid] = t
		if !ok || h.recordsLost(before.at, t.at) {
			continue
		}
		wrong := judge(before, t)
		if wrong != "" && begun[t.uid] < l.round(t.at) {
			begun[t.uid]++
			continue
		}
		v.want(wrong == "", at{uid: t.uid, t: t.at}, "%s", wrong)
	}
}

func (h *history) restartCounts(v *verdict) {
	h.eachChange(v, func(before, t reported) string {
		counts := map[string]int32{}
		for _, c := range containerStatuses(before.status) {
			counts[c.Name] = c.RestartCount
		}
		for _, c := range containerStatuses(t.status) {
			if c.RestartCount < counts[c.Name] {
				return fmt.Sprintf("%s was reported with %d restarts, after %d", c.Name, c.RestartCount, counts[c.Name])
			}
		}
		return ""
	})
}

var order = map[v1.PodPhase]int{v1.PodPending: 1, v1.PodRunning: 2, v1.PodSucceeded: 3, v1.PodFailed: 3}

func (h *history) phases(v *verdict) {
	h.eachChange(v, func(before, t reported) string {
		was, is := before.status.Phase, t.status.Phase
		if order[is] >= order[was] && (order[was] < 3 || is == was) {
			return ""
		}
		return fmt.Sprintf("the pod was reported as %s, after %s", is, was)
	})
}

func (h *history) readyIsTrue(v *verdict) {
	for _, t := range h.statuses {
		l := h.pods[t.uid]
		if l == nil {
			continue
		}
		for _, c := range t.status.ContainerStatuses {
			spec, _ := containerNamed(l.pod(), c.Name)
			if !c.Ready || spec.ReadinessProbe == nil {
				continue
			}
			v.want(h.passed(bareID(c.ContainerID), commandOf(spec.ReadinessProbe), t.at), at{uid: t.uid, t: t.at},
				"%s was reported as ready, and no probe of it had succeeded", c.Name)
		}
	}
}

// passed reports whether a container probe had succeeded by a time.
func (h *history) passed(containerID, command string, by time.Time) bool {
	return slices.ContainsFunc(h.execs(containerID, command), func(c call) bool {
		return c.succeeded() && !c.End.After(by)
	})
}
