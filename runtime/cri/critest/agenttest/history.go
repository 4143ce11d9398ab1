package agenttest

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// history is everything that happened in a scenario. Checks use nothing else.
type history struct {
	scenario   Scenario
	notice     time.Duration
	begin, end time.Time
	// peace is when the last fault ended. settled is when all pods had their desired state, or when
	// Config.Patience ended.
	peace, settled time.Time
	pods           map[types.UID]*podLife
	lives          []span // of the agent
	restarts       []runtimeRestart
	watched        []span
	chaos          []span
	execHung       []span
	// calls are the agent's calls, processes those that really ran, statuses those that the agent reported.
	calls     []call
	processes []critest.Process
	statuses  []reported
	// unanswered are the numbers of the calls whose responses the agent did not receive because of a crash.
	unanswered map[int]bool
	// touched are the IDs of the containers whose process the scenario ended. lostSandboxes are the
	// sandboxes that the scenario removed, with the time.
	touched       map[string]bool
	lostSandboxes map[string]time.Time
	acts          []act
	// sandboxes and containers are those that the runtime has at the end.
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

// span is a period. If its end is zero, it has not ended.
type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool { return !t.Before(s.from) && (s.to.IsZero() || t.Before(s.to)) }

func (s span) meets(from, to time.Time) bool {
	return !s.from.After(to) && (s.to.IsZero() || !s.to.Before(from))
}

type runtimeRestart struct {
	span
	effect string
}

// act is an action of the scenario. Its UID is empty if it concerns no pod.
type act struct {
	at   time.Time
	uid  types.UID
	text string
}

type reported struct {
	at     time.Time
	uid    types.UID
	status v1.PodStatus
}

type version struct {
	at  time.Time
	pod *v1.Pod
}

// podLife is the desired state of a pod over time.
type podLife struct {
	uid      types.UID
	versions []version
	wanted   []span
}

func (l *podLife) want(at time.Time, p *v1.Pod) {
	l.wanted = append(l.wanted, span{from: at})
	l.versions = append(l.versions, version{at, p})
}

func (l *podLife) drop(at time.Time) { l.wanted[len(l.wanted)-1].to = at }

func (l *podLife) pod() *v1.Pod { return l.versions[len(l.versions)-1].pod }

func (l *podLife) kind() kind { k, _ := kindOf(l.pod().Name); return k }

func (l *podLife) grace() time.Duration {
	return time.Duration(*l.pod().Spec.TerminationGracePeriodSeconds) * time.Second
}

// isWanted reports whether the pod is desired at the end.
func (l *podLife) isWanted() bool { return l.wanted[len(l.wanted)-1].to.IsZero() }

// wantedAt returns the period around a time in which the pod is desired.
func (l *podLife) wantedAt(t time.Time) (span, bool) {
	i := slices.IndexFunc(l.wanted, func(s span) bool { return s.has(t) })
	if i < 0 {
		return span{}, false
	}
	return l.wanted[i], true
}

// wantedThroughout reports whether the pod is desired during a whole period, without a change.
func (l *podLife) wantedThroughout(from, to time.Time) bool {
	s, ok := l.wantedAt(from)
	return ok && !l.editedIn(from, to) && (s.to.IsZero() || s.to.After(to))
}

// editedIn reports whether the pod was changed, or added again, during a period.
func (l *podLife) editedIn(from, to time.Time) bool {
	return slices.ContainsFunc(l.versions[1:], func(v version) bool { return v.at.After(from) && !v.at.After(to) })
}

// unwantedAt returns the period around a time in which the pod is not desired.
func (l *podLife) unwantedAt(t time.Time) (span, bool) {
	for i, s := range l.wanted {
		gap := span{from: s.to}
		if i+1 < len(l.wanted) {
			gap.to = l.wanted[i+1].from
		}
		if !s.to.IsZero() && gap.has(t) {
			return gap, true
		}
	}
	return span{}, false
}

// round returns the number of the round that a time belongs to. A round is a period in which the pod is
// desired, and the time after it until the pod is desired again.
func (l *podLife) round(t time.Time) int {
	n := -1
	for i, s := range l.wanted {
		if !t.Before(s.from) {
			n = i
		}
	}
	return n
}

func newHistory(sc Scenario, cfg Config) *history {
	return &history{
		scenario: sc, notice: cfg.Notice, pods: map[types.UID]*podLife{}, unanswered: map[int]bool{},
		touched: map[string]bool{}, lostSandboxes: map[string]time.Time{},
	}
}

func (h *history) alive() bool { return len(h.lives) > 0 && h.lives[len(h.lives)-1].to.IsZero() }

// life returns the agent's life at a time, or the last one before it: the runtime may read the calls of
// a killed process from their socket a little later.
func (h *history) life(t time.Time) span {
	var last span
	for _, l := range h.lives {
		if !t.Before(l.from) {
			last = l
		}
	}
	return last
}

// livesThroughout reports whether one agent ran during a whole period.
func (h *history) livesThroughout(from, to time.Time) bool {
	l := h.life(from)
	return l.has(from) && (l.to.IsZero() || l.to.After(to))
}

// noted is the time that an agent needs after a response to act on it.
const noted = 500 * time.Millisecond

// answered reports whether a call succeeded, and the agent received the response.
func (h *history) answered(c call) bool {
	return c.Done() && c.Err == nil && !h.unanswered[c.N] && h.livesThroughout(c.Start, c.End.Add(noted))
}

// awayIn reports whether the runtime was unavailable, or restarted, during a period.
func (h *history) awayIn(from, to time.Time) bool {
	return slices.ContainsFunc(h.restarts, func(r runtimeRestart) bool { return r.meets(from, to) })
}

// chaosIn reports whether random faults were in force during a period. Their effects may last a little
// longer.
func (h *history) chaosIn(from, to time.Time) bool {
	return slices.ContainsFunc(h.chaos, func(s span) bool { return s.meets(from.Add(-chaosDelay-time.Second), to) })
}

// struck reports whether a fault was injected into a call for a pod during some time. An error
// alone proves nothing: for an object that does not exist, NotFound is a normal response.
func (h *history) struck(uid types.UID, from, to time.Time) bool {
	return slices.ContainsFunc(h.calls, func(c call) bool {
		return c.PodUID == string(uid) && c.Fault != "" && span{c.Start, c.End}.meets(from, to)
	})
}

// quiet reports whether only the agent itself could have caused a delay in a period: one agent ran, and no
// fault met it or the pod.
func (h *history) quiet(uid types.UID, from, to time.Time) bool {
	return h.livesThroughout(from, to) && !h.awayIn(from, to) && !h.chaosIn(from, to) && !h.struck(uid, from, to) &&
		!slices.ContainsFunc(h.execHung, func(s span) bool { return s.meets(from, to) })
}

// heldUp reports whether a process cannot be judged by its duration, because it was delayed before it
// ended, or the scenario ended while it ran.
func (h *history) heldUp(p critest.Process, from, until time.Time) bool {
	if !p.Ended.IsZero() && p.Ended.Before(until) {
		until = p.Ended
	}
	return h.end.Before(until) || !h.quiet(types.UID(p.PodUID), from, until)
}

// of returns a pod's processes, ordered by their starts.
func (h *history) of(uid types.UID) []critest.Process {
	return slices.DeleteFunc(slices.Clone(h.processes), func(p critest.Process) bool { return p.PodUID != string(uid) })
}

// inOrder returns the pods in a fixed order.
func (h *history) inOrder() []*podLife {
	var all []*podLife
	for _, l := range h.pods {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *podLife) int {
		if c := a.wanted[0].from.Compare(b.wanted[0].from); c != 0 {
			return c
		}
		return cmp.Compare(a.uid, b.uid)
	})
	return all
}

// startOf returns the call that started a process, if the agent received its response.
func (h *history) startOf(p critest.Process) (call, bool) {
	for _, c := range h.calls {
		if c.Method == critest.StartContainer && c.ContainerID == p.ContainerID && h.answered(c) {
			return c, true
		}
	}
	return call{}, false
}

// knew reports whether an agent knew that a process had started.
func (h *history) knew(p critest.Process) bool { _, ok := h.startOf(p); return ok }

func runsAt(p critest.Process, t time.Time) bool {
	return p.Started.Before(t) && (p.Ended.IsZero() || p.Ended.After(t))
}

// process returns the process in a container ID.
func (h *history) process(id string) (critest.Process, bool) {
	i := slices.IndexFunc(h.processes, func(p critest.Process) bool { return p.ContainerID == id })
	if i < 0 {
		return critest.Process{}, false
	}
	return h.processes[i], true
}

// forgotten reports whether the runtime had lost its record of a process by a time.
func (h *history) forgotten(p critest.Process, by time.Time) bool {
	return slices.ContainsFunc(h.restarts, func(r runtimeRestart) bool {
		return (r.effect == "removed" || r.effect == "containers-removed") && !r.from.Before(p.Started) && !r.from.After(by)
	})
}

// sandboxTrouble reports whether a sandbox was lost during a period.
func (h *history) sandboxTrouble(id string, from, to time.Time) bool {
	if at, lost := h.lostSandboxes[id]; lost && !at.Before(from) && !at.After(to) {
		return true
	}
	return slices.ContainsFunc(h.restarts, func(r runtimeRestart) bool {
		return r.effect != "" && !r.from.Before(from) && !r.from.After(to)
	})
}
