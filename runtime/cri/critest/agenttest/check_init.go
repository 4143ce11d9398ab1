package agenttest

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var initPromises = []Promise{
	{
		Name: "init-order", Sentence: "Init containers run one after the other until they succeed, and all of them before the regular containers.",
		Source: docInit, Breaks: "kubernetes #120269",
		Evidence: "The processes in the sandbox in which a container is started: each earlier init container has exited with 0.",
		check:    func(h *history, v *verdict) { h.initialised(v, true) },
	},
	{
		Name: "init-again", Sentence: "In a new sandbox all init containers run again before the regular containers.",
		Source: docInit, Breaks: "kubernetes #140309",
		Evidence: "The same, in each sandbox after the first one of a pod.",
		check:    func(h *history, v *verdict) { h.initialised(v, false) },
	},
}

var sidecarPromises = []Promise{
	{
		Name: "sidecars-first", Sentence: "A sidecar has started before the containers that come after it.",
		Source:   docSidecarKEP,
		Evidence: "The containers that were started in the sandbox before a container. A sidecar that has exited meanwhile counts.",
		check:    (*history).sidecarsFirst,
	},
	{
		Name: "sidecars-last", Sentence: "When a pod is stopped, its sidecars get their stop signals after the regular containers have ended, in reverse order.",
		Source: docSidecarKEP, Breaks: "kubernetes #120620",
		Evidence: "StopContainer calls for sidecars of removed pods within the grace period, by the agent that ran when the pods were removed. In the last three seconds all may be stopped at once.",
		check:    (*history).sidecarsLast,
	},
	{
		Name: "sidecars-restart", Sentence: "A sidecar that exits while regular containers run is started again, whatever the pod's restart policy.",
		Source:   docSidecar,
		Evidence: "Processes of desired pods, while one agent runs without faults. The first restart may take half a minute.",
		check:    (*history).sidecarsRestart,
	},
	{
		Name: "sidecars-release", Sentence: "When the regular containers have finished, the sidecars are stopped: they do not keep the pod from finishing.",
		Source:   docSidecar,
		Evidence: "Sidecars of pods that finish. They have half a minute and their grace period after the last exit.",
		check:    (*history).sidecarsRelease,
	},
}

// declared returns the containers before another one in a pod's spec, in their order.
func declared(p *v1.Pod, before string) []v1.Container {
	var all []v1.Container
	for _, c := range p.Spec.InitContainers {
		if c.Name == before {
			return all
		}
		all = append(all, c)
	}
	return all
}

// initialised judges starts either in the first sandboxes of pods or in all other sandboxes.
func (h *history) initialised(v *verdict, first bool) {
	for _, l := range h.inOrder() {
		sandbox, round := "", -1
		for _, p := range h.of(l.uid) {
			if r := l.round(p.Started); r != round {
				sandbox, round = p.SandboxID, r
			}
			if first != (p.SandboxID == sandbox) {
				continue
			}
			for _, c := range declared(l.pod(), p.Container) {
				if c.RestartPolicy == nil {
					v.want(h.succeeded(c.Name, p), atStart(p), "%s was started in a sandbox in which %s has not succeeded", p.Container, c.Name)
				}
			}
		}
	}
}

// succeeded reports whether an init container had succeeded in a process's sandbox before that
// process started.
func (h *history) succeeded(name string, by critest.Process) bool {
	for _, p := range h.of(types.UID(by.PodUID)) {
		if p.Container == name && p.SandboxID == by.SandboxID && !p.Ended.IsZero() && !p.Ended.After(by.Started) && p.ExitCode == 0 {
			return true
		}
	}
	return false
}

func (h *history) sidecarsFirst(v *verdict) {
	for _, l := range h.inOrder() {
		for _, p := range h.of(l.uid) {
			for _, c := range declared(l.pod(), p.Container) {
				if c.RestartPolicy != nil {
					v.want(h.startedBefore(c.Name, p), atStart(p), "%s was started in a sandbox in which the sidecar %s was not started", p.Container, c.Name)
				}
			}
		}
	}
}

func (h *history) startedBefore(name string, by critest.Process) bool {
	for _, p := range h.of(types.UID(by.PodUID)) {
		if p.Container == name && p.SandboxID == by.SandboxID && !p.Started.After(by.Started) {
			return true
		}
	}
	return false
}

// lastOfGrace is a grace period's end. In it, an agent may stop everything that still runs.
const lastOfGrace = 3 * time.Second

func (h *history) sidecarsLast(v *verdict) {
	for _, c := range h.callsOf(critest.StopContainer) {
		l := h.pods[types.UID(c.PodUID)]
		if l == nil || !isSidecar(c.Container) {
			continue
		}
		gap, gone := l.unwantedAt(c.Start)
		if !gone || !h.sawGo(gap.from, c.Start) || c.Start.After(gap.from.Add(l.grace()-lastOfGrace)) {
			continue
		}
		for _, p := range h.of(l.uid) {
			if p.ContainerID == c.ContainerID || !runsAt(p, c.Start) || !h.knew(p) {
				continue
			}
			if isRegular(p.Container) || isSidecar(p.Container) && p.Container > c.Container {
				v.want(false, atCall(c), "%s got its stop signal while %s, which must end before it, still ran", c.Container, p.Container)
			}
		}
		v.want(true, atCall(c), "")
	}
}

// toldOf returns when an agent could first notice a change to the pods made at a time: at once, or
// at its next start.
func (h *history) toldOf(t time.Time) time.Time {
	for _, l := range h.lives {
		if l.to.IsZero() || l.to.After(t) {
			if l.from.After(t) {
				return l.from
			}
			return t
		}
	}
	return t
}

const soonRestarted = 30 * time.Second

func (h *history) sidecarsRestart(v *verdict) {
	for _, l := range h.inOrder() {
		all := h.of(l.uid)
		for n, p := range all {
			until := p.Ended.Add(soonRestarted)
			if !isSidecar(p.Container) || p.Ended.IsZero() || p.Attempt > 0 || !h.regularRunsThroughout(l, p.Ended, until) ||
				!l.wantedThroughout(p.Ended, until) || !h.quiet(l.uid, p.Ended, until) || h.killed(p) {
				continue
			}
			next := nextOf(all[n+1:], p)
			v.want(next != nil && !next.Started.After(until), at{uid: l.uid, t: p.Ended, container: p.ContainerID},
				"%s ended with %d while the pod's own container ran, and was not started again within %v", p.Container, p.ExitCode, soonRestarted)
		}
	}
}

// regularRunsThroughout reports whether one process of a regular container runs during a whole period.
func (h *history) regularRunsThroughout(l *podLife, from, to time.Time) bool {
	for _, p := range h.of(l.uid) {
		if isRegular(p.Container) && !p.Started.After(from) && (p.Ended.IsZero() || p.Ended.After(to)) && h.end.After(to) {
			return true
		}
	}
	return false
}

func (h *history) sidecarsRelease(v *verdict) {
	for _, l := range h.inOrder() {
		ended, over := h.regularsEnded(l)
		until := ended.Add(l.grace() + soonRestarted)
		if !over || l.kind().outcome != finishes || !l.wantedThroughout(ended, until) {
			continue
		}
		for _, p := range h.of(l.uid) {
			if isSidecar(p.Container) && !h.heldUp(p, ended, until) {
				v.want(!runsAt(p, until), at{uid: l.uid, t: until, container: p.ContainerID}, "%s still ran %v after the regular containers had ended at %s",
					p.Container, until.Sub(ended), h.clock(ended))
			}
		}
	}
}

func (h *history) allEnded(l *podLife) bool {
	for _, p := range h.of(l.uid) {
		if p.Ended.IsZero() {
			return false
		}
	}
	return true
}

// regularsEnded returns when the last regular container in a pod ended, if all have ended.
func (h *history) regularsEnded(l *podLife) (last time.Time, all bool) {
	ended := map[string]bool{}
	for _, p := range h.of(l.uid) {
		if !isRegular(p.Container) {
			continue
		}
		if p.Ended.IsZero() {
			return last, false
		}
		ended[p.Container] = true
		if p.Ended.After(last) {
			last = p.Ended
		}
	}
	return last, len(ended) == len(l.pod().Spec.Containers)
}
