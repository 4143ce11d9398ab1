package simulation

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/plancheck"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// trace is the history of a life.
type trace struct {
	mu sync.Mutex
	// instances are the runs of containers, by container ID. They are set at the end of the life.
	instances map[string]*instance
	works     []workSpan
	statuses  []published
	agents    []*agentSpan
	pods      map[types.UID]*podSpan
	// calls is the runtime's journal.
	calls critest.Journal
	// timeouts are the timeouts of StopContainer calls in seconds, by the number of
	// the call.
	timeouts map[int]int64
	// shown is when an answer of the runtime first showed a container to run, by its ID.
	shown map[string]time.Time
	// sandboxes and containers are those of the runtime at the end, remembered the pods with files on a disk, and health
	// the problems that the agents report.
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	remembered []types.UID
	// left is what of pods is on the node at the end.
	left map[types.UID][]string
	// dark is when the source of objects became unavailable for the rest of the life, zero if it did not.
	dark time.Time
	// slow is when a pull began that takes slowPull, by the pod.
	slow   map[types.UID]time.Time
	health []string
	quotas map[string]int64 // of CPU, by container ID
	kills  []*kill
	// stubborn are the containers, by ID, that could not be killed for some time.
	stubborn map[string]bool
	// recordsLost are the times when an agent ended that could not write the whole record of a pod, or when an agent
	// could not read it.
	recordsLost map[types.UID][]time.Time
	// unrecorded are the pods that had no record when an agent ended, because the disk had taken none.
	unrecorded map[types.UID]bool
	// pruned counts the ends of a container, by UID and name, that were removed from the runtime: an agent may not have seen them.
	pruned map[types.UID]int
	// away are the times in which the runtime was unavailable, in order.
	away       []span
	begin, end time.Time
	// said are the actions on the node, and met counts them.
	said []event
	met  map[string]int
}

type span struct{ from, to time.Time }

// runtimeAway records that the runtime restarts. A restart during another one replaces it, and
// may end earlier.
func (tr *trace) runtimeAway(from time.Time, lasts time.Duration) {
	if n := len(tr.away); n > 0 && tr.away[n-1].to.After(from) {
		tr.away[n-1].to = from.Add(lasts)
		return
	}
	tr.away = append(tr.away, span{from, from.Add(lasts)})
}

// instance is one run of a container.
type instance struct {
	critest.Process
	// order is its place among all starts: two at one instant have one, too.
	order int
}

func (i *instance) runsAt(at time.Time) bool {
	return i.Started.Before(at) && (i.Ended.IsZero() || i.Ended.After(at))
}

// workSpan is one call of the Syncer.
type workSpan struct {
	agent int
	podworkers.Work
	from time.Time
}

// published is a status that the embedder got.
type published struct {
	uid    types.UID
	at     time.Time
	status v1.PodStatus
}

// agentSpan is the life of one agent.
type agentSpan struct {
	span
	owner string
	// told is the time at which each source first delivered.
	told map[string]time.Time
	// readable is the time when it could read the records: it does nothing before.
	readable time.Time
	// plans holds its calls against its plans.
	plans *plancheck.Checker
}

// podSpan is what became of a pod at its source.
type podSpan struct {
	kind   kind
	owner  *owner
	source string
	pod    *v1.Pod // the last desired version
	// marked is the time of its deletionTimestamp, removed the time when its source dropped it.
	marked, removed time.Time
	// grace is the time it is given to stop, in seconds.
	grace int64
	// hastened is when it was given less, hastenedGrace, zero if it was not.
	hastened time.Time
	// changed means that its spec was changed after it was added.
	changed bool
	// needs means that its containers need objects, hooked that one of its containers has a postStart handler that hangs.
	needs, hooked bool
	// cpu is the CPU after a resize, 0 if it was not resized.
	cpu int64
}

// kill is a request of the node to stop a pod.
type kill struct {
	uid          types.UID
	at, answered time.Time
	err          error
}

// unwanted returns the time from which no container of the pod may start.
func (p *podSpan) unwanted() time.Time {
	if !p.marked.IsZero() {
		return p.marked
	}
	return p.removed
}

// ran takes over what really ran.
func (tr *trace) ran(all []critest.Process) {
	for n, p := range all {
		tr.instances[p.ContainerID] = &instance{p, n}
	}
}

// called takes over the runtime's journal.
func (tr *trace) called(all critest.Journal) {
	tr.calls = all
	for _, c := range all.Of(critest.StopContainer) {
		tr.timeouts[c.N] = c.Request().(*runtimeapi.StopContainerRequest).GetTimeout()
	}
	for _, c := range all.Of(critest.ListContainers) {
		answer, _ := c.Response().(*runtimeapi.ListContainersResponse)
		for _, listed := range answer.GetContainers() {
			if _, before := tr.shown[listed.Id]; !before && listed.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				tr.shown[listed.Id] = c.End
			}
		}
	}
}

func newTrace() *trace {
	return &trace{instances: map[string]*instance{}, pods: map[types.UID]*podSpan{}, met: map[string]int{}, quotas: map[string]int64{},
		shown: map[string]time.Time{}, timeouts: map[int]int64{}, recordsLost: map[types.UID][]time.Time{}, unrecorded: map[types.UID]bool{}, pruned: map[types.UID]int{}, stubborn: map[string]bool{}, slow: map[types.UID]time.Time{}, left: map[types.UID][]string{}}
}

// keep notes what is left of pods.
func (tr *trace) keep(what string, pods []types.UID) {
	for _, uid := range pods {
		tr.left[uid] = append(tr.left[uid], what)
	}
}

// observer is the trace's ear at one agent.
type observer struct {
	podworkers.NopObserver
	*trace
	agent int
}

func (o observer) SyncStarted(w podworkers.Work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.works = append(o.works, workSpan{o.agent, w, time.Now()})
}

// SetPodStatus takes a status.
func (tr *trace) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.statuses = append(tr.statuses, published{pod.UID, time.Now(), *status.DeepCopy()})
	return nil
}

// of returns the instances of a pod's containers in the order of their starts.
func (tr *trace) of(uid types.UID) []*instance {
	var all []*instance
	for _, i := range tr.instances {
		if i.PodUID == string(uid) {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *instance) int { return a.order - b.order })
	return all
}

// agentOf returns the agent that looked after a pod at a time, nil if none did.
func (tr *trace) agentOf(pod *podSpan, at time.Time) *agentSpan {
	for _, a := range tr.agents {
		if a.owner == pod.owner.name && !at.Before(a.from) && (a.to.IsZero() || at.Before(a.to)) {
			return a
		}
	}
	return nil
}

// loseRecord records that the record of a pod is lost, as a whole or in part.
func (tr *trace) loseRecord(pod types.UID, whole bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if whole {
		tr.unrecorded[pod] = true
	}
	tr.recordsLost[pod] = append(tr.recordsLost[pod], time.Now())
}

// recordLost reports whether the record of a pod was lost between two times, so that earlier events
// cannot be compared with later ones.
func (tr *trace) recordLost(pod types.UID, from, to time.Time) bool {
	return slices.ContainsFunc(tr.recordsLost[pod], func(at time.Time) bool { return !at.Before(from) && !at.After(to) })
}

// evicted returns when the node has stopped a pod for good, zero if it did not.
func (tr *trace) evicted(uid types.UID) time.Time {
	for _, k := range tr.kills {
		if k.uid == uid && k.err == nil && !k.answered.IsZero() && !tr.recordLost(uid, k.at, tr.end) {
			return k.answered
		}
	}
	return time.Time{}
}

// inOrder returns all instances in the order of their starts.
func (tr *trace) inOrder() []*instance {
	var all []*instance
	for _, i := range tr.instances {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *instance) int { return a.order - b.order })
	return all
}

// workAt returns the last work on the pod that began before the call, by the same agent; nil if there
// was none.
func (tr *trace) workAt(c critest.Call) (last *workSpan) {
	known := tr.pods[types.UID(c.PodUID)]
	if known == nil {
		return nil
	}
	a := tr.agentOf(known, c.Start)
	for n := range tr.works {
		if w := &tr.works[n]; string(w.UID) == c.PodUID && tr.agents[w.agent] == a && !w.from.After(c.Start) {
			last = w
		}
	}
	return last
}
