package simulation

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// trace is what has happened in a life.
type trace struct {
	mu sync.Mutex
	// instances are the containers that were asked to start, by their IDs.
	instances map[string]*instance
	works     []workSpan
	statuses  []published
	agents    []*agentSpan
	pods      map[types.UID]*podSpan
	// calls is the runtime's journal.
	calls critest.Journal
	// left is what the runtime and the disk have in the end.
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	remembered []types.UID
	health     string
	// away are the times in which the runtime was.
	away []span
	end  time.Time
}

type span struct{ from, to time.Time }

// instance is the truth about one container.
type instance struct {
	id, uid, name, sandbox string
	attempt                uint32
	// started is zero if it never ran, finished while it runs.
	started, finished time.Time
	exitCode          int32
	gone              bool
}

func (i *instance) runsAt(at time.Time) bool {
	return !i.started.IsZero() && i.started.Before(at) && (i.finished.IsZero() || i.finished.After(at))
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
	// told is when its sources delivered first, by name.
	told map[string]time.Time
}

// podSpan is what became of a pod at its source.
type podSpan struct {
	kind   string
	source string
	pod    *v1.Pod
	// marked is when it was to be deleted, removed when its source dropped it.
	marked, removed time.Time
	// grace is the time it is given to stop, in seconds.
	grace int64
	// changed: its spec was changed while it was there.
	changed bool
}

// unwanted is since when nothing of the pod may be started.
func (p *podSpan) unwanted() time.Time {
	if !p.marked.IsZero() {
		return p.marked
	}
	return p.removed
}

func newTrace() *trace {
	return &trace{instances: map[string]*instance{}, pods: map[types.UID]*podSpan{}}
}

// observe looks at what the runtime really has. It sees no fault.
func (tr *trace) observe(rt *critest.Runtime) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, c := range rt.Journal().Of(critest.StartContainer) {
		if tr.instances[c.ContainerID] == nil && c.Container != "" {
			tr.instances[c.ContainerID] = &instance{id: c.ContainerID, uid: c.PodUID, name: c.Container, sandbox: c.SandboxID, attempt: c.Attempt}
		}
	}
	for _, i := range tr.instances {
		i.observe(rt)
	}
}

func (i *instance) observe(rt *critest.Runtime) {
	if i.gone {
		return
	}
	err := rt.EditContainer(i.id, func(s *runtimeapi.ContainerStatus) {
		if s.StartedAt != 0 {
			i.started = time.Unix(0, s.StartedAt)
		}
		if s.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			i.finished, i.exitCode = time.Unix(0, s.FinishedAt), s.ExitCode
		}
	})
	if i.gone = err != nil; i.gone && i.finished.IsZero() {
		i.finished, i.exitCode = time.Now(), -1
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

// of returns the instances of a pod's container in the order of their attempts.
func (tr *trace) of(uid types.UID) []*instance {
	var all []*instance
	for _, i := range tr.instances {
		if i.uid == string(uid) {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *instance) int { return a.started.Compare(b.started) })
	return all
}

// agentAt returns the agent that was there, nil if none was.
func (tr *trace) agentAt(at time.Time) *agentSpan {
	for _, a := range tr.agents {
		if !at.Before(a.from) && (a.to.IsZero() || at.Before(a.to)) {
			return a
		}
	}
	return nil
}
