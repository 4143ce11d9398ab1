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
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/memory"
)

// podMemory guards a Syncer's memory of one pod. With Records, the part in its Record outlives the
// agent. The rest is lost with the agent: then a step that failed before a container ran may be
// retried before the end of its back-off.
type podMemory struct {
	uid types.UID
	// firstSeen is when the Syncer was first called for the pod.
	firstSeen time.Time
	// status is the status that was last reported. It has a lock of its own.
	status statusBox
	// secrets are the values of Secrets in the environments of the containers. They have a lock of their own.
	secrets podSecrets
	// loading is taken while the record is read, saving is held while it is written.
	loading turn
	saving  sync.Mutex

	// mu guards the fields below.
	mu sync.Mutex
	// changedAt is when the last SyncPod or termination returned that may have changed the runtime: a status that was
	// read before does not show the change.
	changedAt time.Time
	pod       memory.Pod
	// failures are the back-offs of failed steps.
	failures memory.Failures[*StepError]
	// failed are the last reported errors of containers.
	failed []*StepError
	// mounts are the mounts of unfinished starts, by container.
	mounts map[string]startMounts
	// sources are the last answers of the sources of variables, nil before the first start.
	sources *knownSources
	// decided is the input of the last plan, nil before the first plan.
	decided *actions.Input
	// resize is the last event about a resize, nil if there is none.
	resize *resizeReported
	// ends are the channels of Exited, by instance.
	ends map[string]chan struct{}
	// observed is the newest status that was observed, nil if there is none. news has a value while something about the pod
	// was not reported: that status, or a result of a probe.
	observed *runtime.PodStatus
	news     chan struct{}
}

func newPodMemory(uid types.UID, limits *memory.Limits) *podMemory {
	return &podMemory{
		uid: uid, firstSeen: time.Now(), pod: memory.New(limits), failures: memory.NewFailures[*StepError](limits), news: make(chan struct{}, 1),
	}
}

// known returns sources that answer from memory if those of the program are unavailable.
func (m *podMemory) known(from env.Sources) env.Sources {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sources == nil {
		m.sources = newKnownSources()
	}
	return m.sources.of(from)
}

// do calls f with the pod's memory while no other call reads or changes it.
func (m *podMemory) do(f func(*memory.Pod)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.pod)
}

// ask returns the result of a rule, which it calls as do does.
func ask[T any](m *podMemory, rule func(*memory.Pod) T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return rule(&m.pod)
}

// setChanged notes that a call returns that may have changed the runtime.
func (m *podMemory) setChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changedAt = time.Now()
}

// isStale reports whether a status may lack the changes of the last call. With equal times, a clock does not show which
// came first.
func (m *podMemory) isStale(status *runtime.PodStatus) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.changedAt.IsZero() && !status.ObservedAt.After(m.changedAt)
}

// Exited returns a channel that is closed when a status shows that an instance has exited.
func (m *podMemory) Exited(id string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := m.ends[id]
	if ended == nil {
		ended = make(chan struct{})
		put(&m.ends, id, ended)
		if m.pod.Containers.HasExited(id) {
			close(ended)
		}
	}
	return ended
}

// noteEnds closes the channels of Exited. It must be called with mu held.
func (m *podMemory) noteEnds(status *runtime.PodStatus) {
	for i := range status.Containers {
		c := &status.Containers[i]
		ended := m.ends[c.ID.ID]
		if ended == nil || c.State != runtime.ContainerExited {
			continue
		}
		select {
		case <-ended: // an earlier status showed it
		default:
			close(ended)
		}
	}
}

// wake makes a call in flight compute the status again.
func (m *podMemory) wake() {
	select {
	case m.news <- struct{}{}:
	default: // a value is pending
	}
}

// observe calls Observe of package memory, and keeps the newest status for a call in flight.
func (m *podMemory) observe(status *runtime.PodStatus) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news = m.pod.Observe(status)
	m.noteEnds(status)
	if before := m.observed; before == nil || status.ObservedAt.After(before.ObservedAt) {
		m.observed = status
		if news || before == nil || !slices.EqualFunc(before.Sandboxes, status.Sandboxes, sameSandbox) || !slices.EqualFunc(before.Containers, status.Containers, sameInstance) {
			m.wake()
		}
	}
	return news
}

// sameSandbox reports whether a sandbox is in the same state in two statuses.
func sameSandbox(a, b runtime.SandboxStatus) bool { return a.ID == b.ID && a.State == b.State }

// sameInstance reports whether an instance is in the same state in two statuses.
func sameInstance(a, b runtime.ContainerStatus) bool { return a.ID == b.ID && a.State == b.State }

// observedAfter returns the newest observed status if it was read later than another status, and otherwise nil. A status
// without a time is the newest.
func (m *podMemory) observedAfter(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.observed == nil || status == nil || status.ObservedAt.IsZero() || !m.observed.ObservedAt.After(status.ObservedAt) {
		return nil
	}
	return m.observed
}

// Mark marks an instance, and reports whether it did not have the mark.
func (m *podMemory) Mark(id string, what memory.Mark) (first bool) {
	return ask(m, func(p *memory.Pod) bool { return p.Instances.Mark(id, what) })
}

// Unmark removes a mark.
func (m *podMemory) Unmark(id string, what memory.Mark) {
	m.do(func(p *memory.Pod) { p.Instances.Unmark(id, what) })
}

// Marked reports whether an instance has a mark.
func (m *podMemory) Marked(id string, what memory.Mark) bool {
	return ask(m, func(p *memory.Pod) bool { return p.Instances.Marked(id, what) })
}

// stopMemory is the memory of a pod as packages lifecycle and start use it.
type stopMemory struct {
	*podMemory
	syncer *Syncer
}

func (s *Syncer) stopMemory(m *podMemory) stopMemory { return stopMemory{m, s} }

// Do calls f with the pod's memory.
func (m stopMemory) Do(f func(*memory.Pod)) { m.do(f) }

// Record persists the changes of the pod.
func (m stopMemory) Record(ctx context.Context) { m.syncer.record(ctx, m.podMemory) }

// startMemory is the memory of a pod as package start uses it.
type startMemory struct {
	stopMemory
	handling *handling
}

// Mark also notes that the postStart handler of an instance begins.
func (m startMemory) Mark(id string, what memory.Mark) (first bool) {
	if what == memory.PostStartPending {
		m.handling.set(id, true)
	}
	return m.stopMemory.Mark(id, what)
}

// Unmark also notes that the postStart handler of an instance has ended.
func (m startMemory) Unmark(id string, what memory.Mark) {
	m.stopMemory.Unmark(id, what)
	if what == memory.PostStartPending {
		m.handling.set(id, false)
	}
}

// postStopExited calls the hook after a stop for the containers that have exited, by themselves or with an earlier agent.
func (s *Syncer) postStopExited(ctx context.Context, pod *v1.Pod, m *podMemory, status *runtime.PodStatus) {
	for i := range status.Containers {
		if c := &status.Containers[i]; c.State == runtime.ContainerExited {
			s.stopper.PostStop(ctx, pod, c, s.stopMemory(m))
		}
	}
}

// everStarted reports whether an instance of a container was, or may have been, started.
func (m *podMemory) everStarted(name string) bool {
	return ask(m, func(p *memory.Pod) bool { return p.Containers.EverStarted(name) })
}

// completed returns the status with what the runtime has lost or does not report.
func (m *podMemory) completed(status *runtime.PodStatus) *runtime.PodStatus {
	return ask(m, func(p *memory.Pod) *runtime.PodStatus {
		return p.Instances.WithResources(p.Containers.WithStarts(p.Containers.WithSeen(status)))
	})
}

// setDecided records the input of the last plan.
func (m *podMemory) setDecided(in *actions.Input) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decided = in
}

// killBy returns the deadline of a container, or of AllOfPod, that stops while the pod keeps running: grace from
// now, or the deadline of an earlier try if that is earlier.
func (m *podMemory) killBy(what string, grace time.Duration) time.Time {
	deadline := time.Now().Add(grace)
	return ask(m, func(p *memory.Pod) time.Time { return p.Kills.Begin(what, deadline) })
}

// hasten returns the earliest deadline that the pod was ever given.
func (m *podMemory) hasten(deadline time.Time) time.Time {
	return ask(m, func(p *memory.Pod) time.Time { return p.Hasten(deadline) })
}

// callOff drops a termination that was not completed, unless ctx has ended: the pod may have to terminate again.
// It reports whether there was such a termination.
func (m *podMemory) callOff(ctx context.Context) bool {
	return ask(m, func(p *memory.Pod) bool { return ctx.Err() == nil && p.CallOff() })
}

// held returns the failure that delays the next try of a key.
func (m *podMemory) held(key memory.Key, now time.Time) *StepError {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failure, until, wait := m.failures.Held(key, now); wait {
		return failure.waiting(until)
	}
	return nil
}

// holdUp notes that a step failed, and returns until when the next try has to wait.
func (m *podMemory) holdUp(key memory.Key, err *StepError, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures.Failed(key, err, now)
}

// excuse reports whether a failure because the runtime was unavailable does not count.
func (m *podMemory) excuse(key memory.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures.Excuse(key)
}

// succeeded forgets the failures of a key.
func (m *podMemory) succeeded(key memory.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures.Succeeded(key)
}

// holdsNothing reports whether nothing has failed or ended yet.
func (m *podMemory) holdsNothing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures.IsEmpty() && m.pod.Crashes.IsEmpty()
}

// lastFailed returns the last reported errors of containers.
func (m *podMemory) lastFailed() []*StepError {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// setFailed records the errors that keep containers from running.
func (m *podMemory) setFailed(failed []*StepError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = failed
}

// close ends the recording, so that abandoned work that returns late does not record a forgotten pod. It waits
// for a record that is being written.
func (m *podMemory) close() {
	if m == nil {
		return
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	m.do((*memory.Pod).Close)
}

// memories has the memory of each pod until the pod is forgotten.
type memories struct {
	limits *memory.Limits
	mu     sync.Mutex
	pods   map[types.UID]*podMemory
	// undeleted are forgotten pods whose records could not be deleted. A new pod with the UID of one of
	// them is another pod (kubernetes #104648).
	undeleted map[types.UID]bool
}

// get returns the memory of a pod, nil if there is none.
func (m *memories) get(uid types.UID) *podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// of returns the memory of a pod. It creates one if there is none.
func (m *memories) of(uid types.UID) *podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pods[uid]; p != nil {
		return p
	}
	p := newPodMemory(uid, m.limits)
	if m.undeleted[uid] {
		p.pod.Outdate()
	}
	put(&m.pods, uid, p)
	return p
}

// take removes the memory of a pod and returns it, nil if there was none.
func (m *memories) take(uid types.UID) *podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	delete(m.pods, uid)
	return p
}

// deleted notes whether the record of a pod could be deleted.
func (m *memories) deleted(uid types.UID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.undeleted, uid)
	if err != nil {
		put(&m.undeleted, uid, true)
	}
}

// put creates the map if it is nil.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}
