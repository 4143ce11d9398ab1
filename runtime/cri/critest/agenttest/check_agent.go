package agenttest

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var restartPromises = []Promise{
	{
		Name: "left-alone", Sentence: "What runs as it should is not stopped.",
		Source:   docPod,
		Evidence: "StopContainer for processes of pods that are wanted as they are and run for ever, in the life of the agent and of the runtime in which they were started.",
		check: func(h *history, v *verdict) {
			h.spared(v, func(p critest.Process, c call) bool {
				return !h.agentRestarted(p, c) && !h.awayIn(p.Started, c.Start)
			})
		},
	},
	{
		Name: "adopts", Sentence: "An agent that starts leaves what an earlier one has started running.",
		Source: docStatic, Breaks: "kubernetes #63814",
		Evidence: "The same, after a restart of the agent. What was being started as the agent ended is let pass.",
		check: func(h *history, v *verdict) {
			h.spared(v, func(p critest.Process, c call) bool {
				return h.agentRestarted(p, c) && !h.awayIn(p.Started, c.Start)
			})
		},
	},
	{
		Name: "survives-runtime", Sentence: "What runs on while the runtime restarts is not stopped because of that.",
		Source: docCRI, Breaks: "kubernetes #45942", Own: true,
		Evidence: "The same, after a restart of the runtime that left sandboxes and containers as they were.",
		check: func(h *history, v *verdict) {
			h.spared(v, func(p critest.Process, c call) bool { return h.awayIn(p.Started, c.Start) })
		},
	},
}

var agentPromises = []Promise{
	{
		Name: "others-untouched", Sentence: "Sandboxes and containers that the agent has not made are neither stopped nor removed.",
		Source: docOwn, Breaks: "kubernetes #97190", Own: true,
		Evidence: "Calls that change something of a pod that runs on the runtime before the agent starts, and has no label that a kubelet writes.",
		check:    (*history).othersUntouched,
	},
	{
		Name: "few-calls-away", Sentence: "While the runtime is away the agent calls it not more than twenty times a second.",
		Source: docOwn, Breaks: "kubernetes #97404", Own: true,
		Evidence: "Calls from a second after the runtime went until it is back, where that is three seconds or more.",
		check:    (*history).fewCallsAway,
	},
	{
		Name: "few-calls-settled", Sentence: "While all is as it should be, the agent makes not more than ten calls a second.",
		Source: docOwn, Own: true,
		Evidence: "Calls in times in which nothing is done to the node and no pod changes, probes not counted. How many there are is a figure.",
		check:    (*history).fewCallsSettled,
	},
}

func uid(c call) types.UID { return types.UID(c.PodUID) }

// agentRestarted reports whether the agent was restarted between the start of a process and a call.
func (h *history) agentRestarted(p critest.Process, c call) bool {
	return h.life(c.Start).from.After(p.Started)
}

// plain reports whether the pods of a kind keep running and give the agent no reason to stop them.
func plain(k kind) bool {
	return k.outcome == runs && k.name != "slow" && k.name != "unready"
}

// spared judges plain processes that were stopped or left running, if the promise applies to them.
func (h *history) spared(v *verdict, applies func(critest.Process, call) bool) {
	for _, l := range h.inOrder() {
		if !plain(l.kind()) {
			continue
		}
		for _, p := range h.of(l.uid) {
			if isInit(p.Container) {
				continue
			}
			last := call{Call: critest.Call{Start: h.end}}
			if s, ok := l.wantedAt(p.Started); ok && !s.to.IsZero() {
				last.Start = s.to
			}
			if h.knew(p) && applies(p, last) {
				v.judged++
			}
		}
		h.leftAloneBy(v, l, applies, "%s was told to stop, and its pod is wanted as it is")
	}
}

// leftAloneBy judges stops of a pod's processes that nothing in the scenario gives a reason for.
func (h *history) leftAloneBy(v *verdict, l *podLife, applies func(critest.Process, call) bool, why string) {
	for _, c := range h.callsOf(critest.StopContainer) {
		if uid(c) != l.uid {
			continue
		}
		p, ran := h.process(c.ContainerID)
		if !ran || !runsAt(p, c.Start) || !h.unprovoked(l, p, c) || !applies(p, c) || h.interrupted(p) || isInit(p.Container) {
			continue
		}
		v.want(false, atCall(c), why, p.Container)
	}
}

// interrupted reports whether an agent ended, or calls failed, soon after a process started. Then its
// handler may not have run, and the agent may undo the start.
func (h *history) interrupted(p critest.Process) bool {
	until := p.Started.Add(5 * time.Second)
	return !h.livesThroughout(p.Started.Add(-time.Second), until) || h.struck(types.UID(p.PodUID), p.Started.Add(-time.Second), until) ||
		h.awayIn(p.Started.Add(-time.Second), until)
}

func (h *history) othersUntouched(v *verdict) {
	v.judged++
	for _, c := range h.calls {
		if uid(c) == others && changes[c.Method] {
			v.want(false, atCall(c), "it was made by somebody else, before the agent came")
		}
	}
}

const awayCalls = 20

func (h *history) fewCallsAway(v *verdict) {
	for _, r := range h.restarts {
		away := span{r.from.Add(time.Second), r.to}
		if r.to.Sub(r.from) < 3*time.Second || !h.livesThroughout(away.from, away.to) {
			continue
		}
		n, most := h.begunIn(away, ""), awayCalls*int(away.to.Sub(away.from)/time.Second)
		v.want(n <= most, at{t: away.to}, "%d calls in %v while the runtime was away", n, away.to.Sub(away.from))
	}
}

// begunIn counts the calls that began in a period, except those of one method.
func (h *history) begunIn(s span, but critest.Method) int {
	return len(h.callsThat(func(c call) bool { return s.has(c.Start) && c.Method != but }))
}

const settledCalls = 10

func (h *history) fewCallsSettled(v *verdict) {
	for _, s := range h.watched {
		if h.awayIn(s.from, s.to) || h.chaosIn(s.from, s.to) || h.changesIn(s) || !h.livesThroughout(s.from, s.to) {
			continue
		}
		n := h.begunIn(s, critest.ExecSync)
		v.figure("calls in a settled minute", float64(n)/s.to.Sub(s.from).Minutes())
		v.want(float64(n) <= settledCalls*s.to.Sub(s.from).Seconds(), at{t: s.to}, "%d calls in %v in which nothing happened", n, s.to.Sub(s.from))
	}
}

// changesIn reports whether a process started or ended in a period.
func (h *history) changesIn(s span) bool {
	for _, p := range h.processes {
		if s.has(p.Started) || !p.Ended.IsZero() && s.has(p.Ended) {
			return true
		}
	}
	return false
}
