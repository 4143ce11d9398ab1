package agenttest

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var stopPromises = []Promise{
	{
		Name: "grace-given", Sentence: "A removed pod has its whole grace period: no container gets a stop request with less than the rest of it.",
		Source: docLifecycle, Breaks: "kubernetes #83916",
		Evidence: "The first StopContainer call for each process after the removal of its pod, by the agent that ran at the removal. Two seconds less are accepted.",
		check:    (*history).graceGiven,
	},
	{
		Name: "grace-kept", Sentence: "All processes of a removed pod have ended when its grace period has expired, preStop handlers included.",
		Source: docLifecycle, Breaks: "kubernetes #115817",
		Evidence: "Processes, while no fault delays their end. The time to notice the removal, the kubelet's minimum of 2 s, and 10 s more are accepted; " +
			"how long it takes is a figure. It counts from the last start of the agent.",
		check: (*history).graceKept,
	},
	{
		Name: "prestop-first", Sentence: "A preStop handler has run, and has ended or used up the grace period, before its container gets the stop signal.",
		Source: docHooks, Breaks: "kubernetes #115817",
		Evidence: "ExecSync of the handler, and StopContainer calls by the agent that ran when the pod was removed. A failed handler counts as run.",
		check:    (*history).preStopFirst,
	},
	{
		Name: "told-to-stop", Sentence: "No sandbox is stopped, which kills its containers, before these have got a stop signal.",
		Source: docLifecycle, Breaks: "kubernetes #88440",
		Evidence: "StopPodSandbox and RemovePodSandbox calls while a process runs in the sandbox whose start the agent knows of: a StopContainer call for it must precede.",
		check:    (*history).toldToStop,
	},
}

var deletePromises = []Promise{
	{
		Name: "nothing-after-delete", Sentence: "No container of a pod is started after its stop has begun.",
		Source: docLifecycle, Breaks: "kubernetes #125050",
		Evidence: "RunPodSandbox, CreateContainer and StartContainer calls after the agent's first stop of a pod that was removed, or after the time to notice the removal, " +
			"until it is wanted again. That time begins no sooner than as much after the agent's start.",
		check: (*history).nothingAfterDelete,
	},
	{
		Name: "nothing-left", Sentence: "No container and no sandbox of a removed pod is left at the end of the run.",
		Source: docGC, Breaks: "kubernetes #115252",
		Evidence: "The lists of the runtime after the faults have ended and the whole patience of the run has passed.",
		check:    (*history).nothingLeft,
	},
}

// leniency is by how much a grace period may be too short.
const leniency = 2 * time.Second

// minimum is the minimum grace period of a kubelet.
const minimum = 2 * time.Second

// firstStops calls judge for the first StopContainer call for each process of a removed pod, with the
// period in which the pod is not desired.
func (h *history) firstStops(judge func(l *podLife, gap span, p critest.Process, c call)) {
	seen := map[string]bool{}
	for _, c := range h.callsOf(critest.StopContainer) {
		l := h.pods[types.UID(c.PodUID)]
		p, ran := h.process(c.ContainerID)
		if l == nil || !ran || !runsAt(p, c.Start) || seen[c.ContainerID] {
			continue
		}
		gap, gone := l.unwantedAt(c.Start)
		if !gone {
			continue
		}
		seen[c.ContainerID] = true
		judge(l, gap, p, c)
	}
}

// graceGiven does not judge pods that were removed while no agent ran: the next agent does not know
// their specs, and no document states which grace period it must use.
func (h *history) graceGiven(v *verdict) {
	h.firstStops(func(l *podLife, gap span, p critest.Process, c call) {
		if !h.sawGo(gap.from, c.Start) || !h.knew(p) || h.wasStopped(p, gap.from) {
			return
		}
		given := time.Duration(c.timeout()) * time.Second
		left := l.grace() - c.Start.Sub(gap.from)
		v.want(given >= left-leniency, atCall(c), "%s got a stop request with %v, and the pod had %v left of its %v",
			p.Container, given, left.Round(time.Second/10), l.grace())
	})
}

// wasStopped reports whether a stop of the process was requested before a time, for another reason
// with its own deadline.
func (h *history) wasStopped(p critest.Process, before time.Time) bool {
	return slices.ContainsFunc(h.callsOf(critest.StopContainer), func(c call) bool {
		return c.ContainerID == p.ContainerID && c.Start.Before(before)
	})
}

// sawGo reports whether the agent that acts at a time was already running when a pod was removed. A
// later agent has no spec of the pod.
func (h *history) sawGo(removed, acts time.Time) bool {
	return h.life(acts).from.Before(removed)
}

const endsSoon = 10 * time.Second

func (h *history) graceKept(v *verdict) {
	for _, l := range h.inOrder() {
		for _, s := range l.wanted {
			if s.to.IsZero() {
				continue
			}
			from := h.heardOf(s.to)
			until := from.Add(h.notice + l.grace() + minimum + endsSoon)
			gap, _ := l.unwantedAt(s.to)
			if !gap.to.IsZero() && gap.to.Before(until) {
				continue
			}
			for _, p := range h.of(l.uid) {
				if !runsAt(p, from) || h.heldUp(p, from, until) {
					continue
				}
				if !p.Ended.IsZero() {
					v.took("from removal to exit, beyond the grace period", max(0, p.Ended.Sub(from)-l.grace()))
				}
				v.want(!runsAt(p, until), at{uid: l.uid, t: until, container: p.ContainerID}, "%s still ran %v after the pod was removed, its grace period is %v",
					p.Container, until.Sub(from), l.grace())
			}
		}
	}
}

// preStopOf returns the command of a container's preStop handler, "" if it has none.
func preStopOf(p *v1.Pod, container string) string {
	c, _ := containerNamed(p, container)
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return ""
	}
	return strings.Join(c.Lifecycle.PreStop.Exec.Command, " ")
}

func (h *history) preStopFirst(v *verdict) {
	h.firstStops(func(l *podLife, gap span, p critest.Process, c call) {
		command := preStopOf(l.pod(), p.Container)
		if command == "" || !h.sawGo(gap.from, c.Start) || !h.knew(p) || h.wasStopped(p, gap.from) || c.Start.After(gap.from.Add(l.grace()-lastOfGrace)) {
			return
		}
		runs := h.execs(p.ContainerID, command)
		ended := slices.ContainsFunc(runs, func(e call) bool { return e.Done() && !e.End.After(c.Start) })
		v.want(len(runs) > 0, atCall(c), "%s got its stop signal, and its preStop handler (%s) did not run", p.Container, command)
		if len(runs) > 0 {
			v.want(ended, atCall(c), "%s got its stop signal while its preStop handler (%s) still ran, with %v left of the grace period",
				p.Container, command, l.grace()-c.Start.Sub(gap.from))
		}
	})
}

func (h *history) toldToStop(v *verdict) {
	stopped := map[string]bool{}
	for _, c := range h.callsOf(critest.StopContainer, critest.StopPodSandbox, critest.RemovePodSandbox) {
		if c.Method == critest.StopContainer {
			stopped[c.ContainerID] = true
			continue
		}
		for _, p := range h.of(types.UID(c.PodUID)) {
			start, known := h.startOf(p)
			if p.SandboxID == c.SandboxID && known && start.End.Add(noted).Before(c.Start) {
				v.want(!runsAt(p, c.Start) || stopped[p.ContainerID], atCall(c), "the sandbox was stopped while %s ran in it, which had got no stop signal", p.Container)
			}
		}
	}
}

var starting = []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer}

var stopping = []critest.Method{critest.StopContainer, critest.StopPodSandbox}

func (h *history) nothingAfterDelete(v *verdict) {
	for _, l := range h.inOrder() {
		for _, s := range l.wanted {
			if !s.to.IsZero() {
				v.judged++ // whether or not a process starts
			}
		}
	}
	for _, c := range h.callsOf(starting...) {
		l := h.pods[types.UID(c.PodUID)]
		if l == nil {
			continue
		}
		gap, gone := l.unwantedAt(c.Start)
		if !gone {
			continue
		}
		noticed := h.noticed(l.uid, gap.from)
		v.want(!c.Start.After(noticed), atCall(c), "the pod was removed at %s, and its stop had begun at %s", h.clock(gap.from), h.clock(noticed))
	}
}

// heardOf returns the start of the time in which an agent must notice a change to the pods: when it could
// first notice the change, but not before it has run for its Notice time.
func (h *history) heardOf(t time.Time) time.Time {
	told := h.toldOf(t)
	if up := h.life(told).from.Add(h.notice); up.After(told) {
		return up
	}
	return told
}

// noticed returns when an agent must have known that a pod was removed: when it first stopped
// something of the pod, or at the end of its Notice time.
func (h *history) noticed(uid types.UID, removed time.Time) time.Time {
	at := h.heardOf(removed).Add(h.notice)
	for _, c := range h.callsOf(stopping...) {
		if c.PodUID == string(uid) && c.Start.After(removed) && c.Start.Before(at) && h.stopsForGood(c) {
			at = c.Start
		}
	}
	return at
}

// stopsForGood reports whether a call stops a process for good. An agent stops other processes in order
// to start them again: in a sandbox that was lost, or in a pod of the kind sick.
func (h *history) stopsForGood(c call) bool {
	p, ran := h.process(c.ContainerID)
	return c.Method == critest.StopContainer && ran && runsAt(p, c.Start) && h.knew(p) && !h.sandboxTrouble(p.SandboxID, p.Started, c.Start) && h.pods[types.UID(c.PodUID)].kind().name != "sick"
}

func (h *history) nothingLeft(v *verdict) {
	for _, l := range h.inOrder() {
		if l.isWanted() {
			continue
		}
		left := h.leftOf(l.uid)
		v.want(left == "", at{uid: l.uid, t: h.settled}, "%s left %v after the last trouble was over", left, h.settled.Sub(h.peace).Round(time.Second))
	}
}
