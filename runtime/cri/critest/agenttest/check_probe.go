package agenttest

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var probePromises = []Promise{
	{
		Name: "liveness-acts", Sentence: "A container whose liveness probe reaches its failure threshold is stopped, and started again.",
		Source:   docProbes,
		Evidence: "The process of a container whose probe fails from its eighth second on. While the agent runs without faults, it must end within the time of the probes, its grace period and 20 s.",
		check:    (*history).livenessActs,
	},
	{
		Name: "liveness-threshold", Sentence: "A container is not stopped because of its liveness probe before the probe has reached its failure threshold.",
		Source:   docProbes,
		Evidence: "StopContainer calls for such a container, and the earlier results of its probe.",
		check:    (*history).livenessThreshold,
	},
	{
		Name: "startup-gates", Sentence: "No liveness or readiness probe runs before the startup probe has succeeded.",
		Source:   docProbes,
		Evidence: "ExecSync calls for one container.",
		check:    (*history).startupGates,
	},
	{
		Name: "readiness-spares", Sentence: "A container is not stopped because its readiness probe fails.",
		Source:   docProbes,
		Evidence: "StopContainer calls for a container that is never ready, while its pod is desired and nothing else has happened to it.",
		check:    (*history).readinessSpares,
	},
	{
		Name: "poststart-runs", Sentence: "A postStart handler runs for each start of its container.",
		Source: docHooks, Breaks: "kubernetes #122803",
		Evidence: "ExecSync of the handler in each process that runs for 30 s while an agent runs.",
		check:    (*history).postStartRuns,
	},
}

func commandOf(p *v1.Probe) string {
	if p == nil {
		return ""
	}
	return strings.Join(p.Exec.Command, " ")
}

// eachContainer calls judge for each process with its container's spec.
func (h *history) eachContainer(judge func(l *podLife, p critest.Process, c v1.Container)) {
	for _, l := range h.inOrder() {
		for _, p := range h.of(l.uid) {
			if c, ok := containerNamed(l.pod(), p.Container); ok {
				judge(l, p, c)
			}
		}
	}
}

// well is how long the container runs well before its liveness probe begins to fail.
const well = 8 * time.Second

func (h *history) livenessActs(v *verdict) {
	h.eachContainer(func(l *podLife, p critest.Process, c v1.Container) {
		if c.LivenessProbe == nil || l.kind().name != "sick" {
			return
		}
		until := p.Started.Add(well + time.Duration(c.LivenessProbe.PeriodSeconds*c.LivenessProbe.FailureThreshold)*time.Second + l.grace() + 2*endsSoon)
		if !l.wantedThroughout(p.Started, until) || h.heldUp(p, p.Started, until) {
			return
		}
		v.want(!runsAt(p, until), at{uid: l.uid, t: until, container: p.ContainerID}, "the probe of %s failed from %s on, and its process still ran %v later",
			p.Container, h.clock(p.Started.Add(well)), until.Sub(p.Started.Add(well)))
	})
}

// failedBefore returns how many runs of a command in a container failed in a row before a time.
func (h *history) failedBefore(containerID, command string, t time.Time) int32 {
	n := int32(0)
	for _, c := range h.execs(containerID, command) {
		if c.Start.After(t) {
			break
		}
		n++
		if c.succeeded() && !c.End.After(t) {
			n = 0
		}
	}
	return n
}

func (h *history) livenessThreshold(v *verdict) {
	for _, c := range h.callsOf(critest.StopContainer) {
		p, ran := h.process(c.ContainerID)
		l := h.pods[uid(c)]
		if l == nil || !ran || !runsAt(p, c.Start) || !h.unprovoked(l, p, c) {
			continue
		}
		spec, _ := containerNamed(l.pod(), p.Container)
		if spec.LivenessProbe == nil || spec.StartupProbe != nil {
			continue
		}
		n := h.failedBefore(p.ContainerID, commandOf(spec.LivenessProbe), c.Start)
		v.want(n >= spec.LivenessProbe.FailureThreshold, atCall(c), "%s got its stop signal after %d consecutive failures of its probe, the threshold is %d", p.Container, n, spec.LivenessProbe.FailureThreshold)
	}
}

func (h *history) startupGates(v *verdict) {
	h.eachContainer(func(_ *podLife, p critest.Process, c v1.Container) {
		if c.StartupProbe == nil {
			return
		}
		started := time.Time{}
		for _, e := range h.execs(p.ContainerID, commandOf(c.StartupProbe)) {
			if e.succeeded() && started.IsZero() {
				started = e.End
			}
		}
		for _, other := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if other == nil {
				continue
			}
			for _, e := range h.execs(p.ContainerID, commandOf(other)) {
				v.want(!started.IsZero() && !e.Start.Before(started), atCall(e), "%s was probed with (%s) before its startup probe had succeeded", p.Container, commandOf(other))
			}
		}
	})
}

// unprovoked reports whether nothing in the scenario gives a reason for a stop: the pod was desired, was
// not changed from a minute before the process started, and no fault met its sandbox or its process.
func (h *history) unprovoked(l *podLife, p critest.Process, c call) bool {
	return l.wantedThroughout(p.Started, c.Start) && !l.editedIn(p.Started.Add(-time.Minute), c.Start) && h.knew(p) &&
		!h.sandboxTrouble(p.SandboxID, p.Started.Add(-noted), c.Start) && !h.touched[p.ContainerID]
}

func (h *history) readinessSpares(v *verdict) {
	for _, l := range h.inOrder() {
		if l.kind().name != "unready" {
			continue
		}
		v.judged += len(h.of(l.uid))
		h.leftAloneBy(v, l, func(p critest.Process, c call) bool { return true },
			"%s got a stop signal although its pod is desired: only its readiness probe fails")
	}
}

func (h *history) postStartRuns(v *verdict) {
	h.eachContainer(func(l *podLife, p critest.Process, c v1.Container) {
		if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
			return
		}
		until := p.Started.Add(30 * time.Second)
		if runsAt(p, until) && h.end.After(until) && h.livesThroughout(until.Add(-15*time.Second), until) {
			command := strings.Join(c.Lifecycle.PostStart.Exec.Command, " ")
			v.want(len(h.execs(p.ContainerID, command)) > 0, at{uid: l.uid, t: until, container: p.ContainerID}, "%s ran for 30 s, and its postStart handler (%s) was not run", p.Container, command)
		}
	})
}
