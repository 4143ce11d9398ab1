package agenttest

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var onePromises = []Promise{
	{
		Name: "one-instance", Sentence: "At most one process of a container runs at a time.",
		Source: docPod, Breaks: "kubernetes #139670",
		Evidence: "The processes that ran, whatever the runtime answered. A process may start at the instant at which the other one ends.",
		check:    (*history).oneInstance,
	},
	{
		Name: "names-unique", Sentence: "The name and attempt of a container are used once in the lifetime of a sandbox.",
		Source: docCRI, Breaks: "kubernetes #134153",
		Evidence: "CreateContainer calls in one sandbox. The agent may repeat a creation whose success it does not know.",
		check:    (*history).namesUnique,
	},
	{
		Name: "attempts-grow", Sentence: "Each new instance of a container has a higher attempt, so that restarts are counted and the newest instance is known.",
		Source: docOwn, Breaks: "kubernetes #83050", Own: true,
		Evidence: "CreateContainer calls whose success the agent knows. The attempts of a pod may start again after the pod was removed and added again, or if the runtime has lost its records.",
		check:    (*history).attemptsGrow,
	},
}

var containerPromises = []Promise{
	{
		Name: "never-runs-once", Sentence: "A container whose restart policy is Never is not started again.",
		Source: docLifecycle, Breaks: "kubernetes #51142",
		Evidence: "Processes of regular containers. A start that no agent knows of does not count, nor a start whose record the runtime has lost.",
		check:    (*history).neverRunsOnce,
	},
	{
		Name: "on-failure", Sentence: "With the restart policy OnFailure, a container that exited with 0 is not started again.",
		Source:   docLifecycle,
		Evidence: "Processes of regular containers, as for never-runs-once.",
		check:    (*history).onFailure,
	},
	{
		Name: "restarts", Sentence: "A container that its policy restarts starts again within 5 min after its exit.",
		Source: docLifecycle, Breaks: "kubernetes #136969",
		Evidence: "Processes of desired pods, while one agent runs without faults. One more minute than the longest back-off is accepted. The time is reported as a figure.",
		check:    (*history).restartsEnded,
	},
	{
		Name: "back-off", Sentence: "A container that fails repeatedly waits 10 s before its second restart, and twice as long before each further one, up to 5 min.",
		Source: docLifecycle, Breaks: "kubernetes #133472",
		Evidence: "Exits and starts of a container that fails in one sandbox, while one agent runs. A pause may be shorter by a tenth and a second. Longer pauses are not judged here.",
		check:    (*history).backsOff,
	},
}

// eachNext calls judge for each process and its successor in the same container, in one round of a
// pod.
func (h *history) eachNext(judge func(l *podLife, before, p critest.Process)) {
	for _, l := range h.inOrder() {
		last := map[string]critest.Process{}
		for _, p := range h.of(l.uid) {
			key := fmt.Sprint(p.Container, l.round(p.Started))
			if before, ok := last[key]; ok {
				judge(l, before, p)
			}
			last[key] = p
		}
	}
}

func (h *history) oneInstance(v *verdict) {
	for _, l := range h.inOrder() {
		last := map[string]critest.Process{}
		for _, p := range h.of(l.uid) {
			before, ok := last[p.Container]
			v.want(!ok || !before.Overlaps(p), atStart(p), "%s was started as attempt %d while attempt %d, started at %s, still ran",
				p.Container, p.Attempt, before.Attempt, h.clock(before.Started))
			last[p.Container] = p
		}
	}
}

func (h *history) namesUnique(v *verdict) {
	made := map[string]call{}
	for _, c := range h.callsOf(critest.CreateContainer) {
		key := fmt.Sprint(c.SandboxID, c.Container, c.Attempt)
		before, ok := made[key]
		v.want(!ok || c.Start.Before(before.End.Add(noted)), atCall(c), "%s attempt %d was created in this sandbox at %s already", c.Container, c.Attempt, h.clock(before.Start))
		if h.answered(c) {
			made[key] = c
		}
	}
}

func (h *history) attemptsGrow(v *verdict) {
	last := map[string]call{}
	for _, c := range h.callsOf(critest.CreateContainer) {
		l := h.pods[types.UID(c.PodUID)]
		if l == nil || !h.answered(c) {
			continue
		}
		key := fmt.Sprint(c.PodUID, c.Container, l.round(c.Start))
		before, ok := last[key]
		if ok && !h.recordsLost(before.Start, c.Start) {
			v.want(c.Attempt > before.Attempt, atCall(c), "%s is attempt %d, and was attempt %d at %s", c.Container, c.Attempt, before.Attempt, h.clock(before.Start))
		}
		last[key] = c
	}
}

// recordsLost reports whether the runtime lost containers during a period.
func (h *history) recordsLost(from, to time.Time) bool {
	return h.forgotten(critest.Process{Started: from}, to)
}

// isRegular reports whether only the pod's restart policy decides about restarts of a container.
func isRegular(name string) bool { return strings.HasPrefix(name, "c") }

func (h *history) neverRunsOnce(v *verdict) {
	h.runsOnce(v, v1.RestartPolicyNever, func(critest.Process) bool { return true })
}

func (h *history) onFailure(v *verdict) {
	h.runsOnce(v, v1.RestartPolicyOnFailure, func(p critest.Process) bool { return !p.Ended.IsZero() && p.ExitCode == 0 })
}

// runsOnce judges that no process follows a process that is finished according to the policy.
func (h *history) runsOnce(v *verdict, policy v1.RestartPolicy, over func(critest.Process) bool) {
	for _, l := range h.inOrder() {
		if l.pod().Spec.RestartPolicy != policy {
			continue
		}
		first := map[string]critest.Process{}
		for _, p := range h.of(l.uid) {
			key := fmt.Sprint(p.Container, l.round(p.Started))
			before, ok := first[key]
			if !isRegular(p.Container) || ok && h.forgotten(before, p.Started) {
				continue
			}
			v.want(!ok, atStart(p), "%s was started again. It had run from %s on, exited with %d, and its restart policy is %s",
				p.Container, h.clock(before.Started), before.ExitCode, policy)
			if !ok && h.knew(p) && over(p) {
				first[key] = p
			}
		}
	}
}

const (
	longestBackOff  = 5 * time.Minute
	backOffLeniency = time.Minute
)

// comesAgain reports whether a container that ended with a code must be restarted.
func comesAgain(p *v1.Pod, name string, code int32) bool {
	if c, _ := containerNamed(p, name); c.RestartPolicy != nil {
		return *c.RestartPolicy == v1.ContainerRestartPolicyAlways
	}
	policy := p.Spec.RestartPolicy
	return !isInit(name) && (policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure && code != 0)
}

func (h *history) restartsEnded(v *verdict) {
	for _, l := range h.inOrder() {
		all, again := h.of(l.uid), map[string]bool{}
		for n, p := range all {
			if p.Ended.IsZero() || !comesAgain(l.pod(), p.Container, p.ExitCode) || h.isOver(l, p.Ended) {
				continue
			}
			next := nextOf(all[n+1:], p)
			if next == nil {
				until := p.Ended.Add(longestBackOff + backOffLeniency)
				if h.end.After(until) && !h.isOver(l, until) && l.wantedThroughout(p.Ended, until) && h.quiet(l.uid, p.Ended, until) {
					v.want(false, at{uid: l.uid, t: p.Ended, container: p.ContainerID}, "%s exited with %d and was not started again", p.Container, p.ExitCode)
				}
				continue
			}
			h.restarted(v, l, p, *next, !again[p.Container])
			again[p.Container] = true
		}
	}
}

// restarted judges a restart's duration, either of a first restart or of a later one.
func (h *history) restarted(v *verdict, l *podLife, p, next critest.Process, first bool) {
	if !l.wantedThroughout(p.Ended, next.Started) || !h.quiet(l.uid, p.Ended, next.Started) {
		return
	}
	took := next.Started.Sub(p.Ended)
	if first {
		v.took("from exit to first restart", took)
	}
	v.want(took <= longestBackOff+backOffLeniency, atStart(next), "%s exited with %d at %s, and was started again only after %v", p.Container, p.ExitCode, h.clock(p.Ended), took)
}

func nextOf(later []critest.Process, p critest.Process) *critest.Process {
	for n := range later {
		if later[n].Container == p.Container {
			return &later[n]
		}
	}
	return nil
}

// isOver reports whether a pod has finished by a time: its regular containers have ended for good, or
// its deadline has passed. Its sidecars may then end, too.
func (h *history) isOver(l *podLife, t time.Time) bool {
	if l.kind().outcome != finishes {
		return false
	}
	for _, c := range l.pod().Spec.Containers {
		over := false
		for _, p := range h.of(l.uid) {
			over = over || p.Container == c.Name && !p.Ended.IsZero() && !p.Ended.After(t.Add(time.Second))
		}
		if !over {
			return false
		}
	}
	return true
}

func (h *history) backsOff(v *verdict) {
	waits := map[string]time.Duration{}
	h.eachNext(func(l *podLife, before, p critest.Process) {
		key := p.SandboxID + p.Container + h.life(p.Started).from.String()
		if !comesAgain(l.pod(), p.Container, before.ExitCode) || !h.livesThroughout(before.Ended, p.Started) || !l.wantedThroughout(before.Started, p.Started) {
			return
		}
		if before.SandboxID != p.SandboxID || before.ExitCode == 0 || h.touched[before.ContainerID] || h.awayIn(before.Started, p.Started) || h.killed(before) {
			delete(waits, key) // it did not fail by itself, and no document states the effect on the back-off
			return
		}
		wait, again := waits[key]
		if again {
			waited := p.Started.Sub(before.Ended)
			v.want(waited >= wait*9/10-time.Second, atStart(p), "%s exited with %d at %s and was started again after %v, want at least %v",
				p.Container, before.ExitCode, h.clock(before.Ended), waited.Round(time.Millisecond), wait)
		}
		waits[key] = max(10*time.Second, min(2*wait, longestBackOff))
	})
}

// killed reports whether the agent requested a stop of the process.
func (h *history) killed(p critest.Process) bool {
	for _, c := range h.callsOf(critest.StopContainer) {
		if c.ContainerID == p.ContainerID && (p.Ended.IsZero() || c.Start.Before(p.Ended)) {
			return true
		}
	}
	return false
}
