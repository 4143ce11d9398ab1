package syncpod

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// memory is what a Syncer remembers of one pod. What is in its Record outlives the
// agent if there are Records. The rest is lost with it: then what failed before a container ran
// may be tried sooner than its back-off says.
type memory struct {
	uid types.UID
	// firstSeen is when the Syncer was first told of the pod.
	firstSeen time.Time

	// These have locks of their own: status is what was last reported, backOffs hold up
	// what has failed, kills are the deadlines of what has to go while the pod goes on,
	// and sandbox is the one in use.
	status   statusBox
	backOffs backOffs
	kills    killDeadlines
	sandbox  sandboxMemory

	// mu guards all that follows, but for loading and saving.
	mu sync.Mutex
	// containers are what is known of each container by its name, instances what is
	// known of each instance by its ID.
	containers containers
	instances  instances
	// deadline is the earliest end that the pod was given, zero while it may run.
	deadline time.Time
	// calledOff: the pod was to run before its record was loaded, so that an end which
	// the record tells of was called off.
	calledOff bool
	// evicted is why the pod was put off the node, nil if it was not.
	evicted *apistatus.Problem
	// disrupted: it was for the need of the node.
	disrupted bool
	// restartAll is set from the exit that asks for all containers to restart until
	// all of them are removed.
	restartAll bool
	// startingOver is set from then on until all regular containers have been made again. Of an
	// earlier agent's the condition AllContainersRestarting in the pod's status tells.
	startingOver bool
	// failed is what was last reported to keep containers from running.
	failed []*StepError
	// decided is what the last plan was made from, nil before the first.
	decided *actions.Input
	// resize is what was last told of a resize in events, nil if there is none.
	resize *resizeTold

	// loaded is set once the pod's record is part of this, saved is that record.
	loaded bool
	saved  savedRecord
	// outdated: what is recorded is of an earlier pod with this UID.
	outdated bool
	// gone: the pod is gone, and nothing of it is recorded any more.
	gone bool
	// loading is had by who reads the record, saving is held while it is written.
	loading turn
	saving  sync.Mutex
}

func newMemory(uid types.UID, c *Config) *memory {
	return &memory{uid: uid, firstSeen: time.Now(), backOffs: backOffs{config: c}}
}

// evict notes why the pod is put off the node, the first time.
func (m *memory) evict(why *apistatus.Problem, disrupted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.evicted == nil && why != nil {
		m.evicted, m.disrupted = new(*why), disrupted
	}
}

// disruption is the condition of a pod that was put off for the need of the node, none for
// any other.
func (m *memory) disruption() []v1.PodCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.evicted == nil || !m.disrupted {
		return nil
	}
	return []v1.PodCondition{apistatus.DisruptionTarget(m.evicted.Message)}
}

func (m *memory) evictedFor() *apistatus.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.evicted
}

// hasten returns the earliest deadline that the pod was ever given: one that has
// been asked for is not put off.
func (m *memory) hasten(deadline time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deadline = earliest(m.deadline, deadline)
	return m.deadline
}

// callOff forgets an end that has not come: the agent that was to bring it about was
// stopped before, and now the pod is to run. Its next end has its whole time again, and
// its preStop handlers. Nothing is forgotten once ctx has ended, for the pod may have
// been told to end since. It reports whether there was such an end.
func (m *memory) callOff(ctx context.Context) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	m.calledOff = !m.loaded
	if m.deadline.IsZero() {
		return false
	}
	m.deadline = time.Time{}
	for _, i := range m.instances {
		i.marks &^= stopSignalled | preStopRun | preStopCompleted
	}
	return true
}

// restartsAll reports whether all containers are to restart: it is requested, or was, and
// not all of them have been removed yet (KEP-5532).
func (m *memory) restartsAll(requested, allRemoved bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restartAll = (m.restartAll || requested) && !allRemoved
	m.startingOver = m.startingOver || requested
	return m.restartAll
}

// startsOver reports whether all containers are to restart, or did not all come to it yet. told
// is whether that was reported last, by an earlier agent perhaps.
func (m *memory) startsOver(pod *v1.Pod, status *runtime.PodStatus, told bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.startingOver = m.startingOver || told
	if m.startingOver && !m.restartAll {
		m.startingOver = slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return status.Latest(c.Name) == nil })
	}
	return m.startingOver
}

// lastFailed returns what was reported last to keep containers from running.
func (m *memory) lastFailed() []*StepError {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// setFailed notes what keeps containers from running.
func (m *memory) setFailed(failed []*StepError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = failed
}
