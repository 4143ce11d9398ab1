package agenttest

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var restartPromises = []Promise{
	{
		Name: "left-alone", Sentence: "A container that runs as desired is not stopped.",
		Source:   docPod,
		Evidence: "StopContainer calls for processes of unchanged, desired pods that run forever, by the agent that started them, and without a restart of the runtime.",
		check: func(h *history, v *verdict) {
			h.spared(v, func(p critest.Process, c call) bool {
				return !h.agentRestarted(p, c) && !h.awayIn(p.Started, c.Start)
			})
		},
	},
	{
		Name: "adopts", Sentence: "An agent that starts keeps the containers of an earlier agent running.",
		Source: docStatic, Breaks: "kubernetes #63814",
		Evidence: "The same, after a restart of the agent. Containers whose start was in progress when the agent ended do not count.",
		check: func(h *history, v *verdict) {
			h.spared(v, func(p critest.Process, c call) bool {
				return h.agentRestarted(p, c) && !h.awayIn(p.Started, c.Start)
			})
		},
	},
	{
		Name: "survives-runtime", Sentence: "Containers that keep running during a restart of the runtime are not stopped because of it.",
		Source: docCRI, Breaks: "kubernetes #45942", Own: true,
		Evidence: "The same, after a restart of the runtime that changed no sandbox and no container.",
		check: func(h *history, v *verdict) {
			h.spared(v, func(p critest.Process, c call) bool { return h.awayIn(p.Started, c.Start) })
		},
	},
}

var agentPromises = []Promise{
	{
		Name: "others-untouched", Sentence: "Sandboxes and containers that the agent has not created are neither stopped nor removed.",
		Source: docOwn, Breaks: "kubernetes #97190", Own: true,
		Evidence: "Calls that change a pod which runs before the agent starts and has none of a kubelet's labels.",
		check:    (*history).othersUntouched,
	},
	{
		Name: "few-calls-away", Sentence: "While the runtime is unavailable, the agent calls it at most twenty times a second.",
		Source: docOwn, Breaks: "kubernetes #97404", Own: true,
		Evidence: "Calls from one second after the runtime became unavailable until it is available again, if that takes three seconds or more.",
		check:    (*history).fewCallsAway,
	},
	{
		Name: "few-calls-settled", Sentence: "While all pods are in their desired state, the agent makes at most ten calls a second.",
		Source: docOwn, Own: true,
		Evidence: "Calls while nothing happens on the node and no pod changes, without probes. Their number is reported as a figure.",
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
		h.leftAloneBy(v, l, applies, "%s got a stop signal, and its pod is desired unchanged")
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
			v.want(false, atCall(c), "another program created it before the agent started")
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
		v.want(n <= most, at{t: away.to}, "%d calls in %v while the runtime was unavailable", n, away.to.Sub(away.from))
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
