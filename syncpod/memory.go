package syncpod

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/memory"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// podMemory is a Syncer's memory of one pod. The part in its Record outlives the agent, if there are Records. The rest is
// lost with the agent: then a step that failed before a container ran may be retried before its back-off ends.
//
// A decision reads it once (recall) and writes it once (learn). Packages lifecycle and start write what they do when they do
// it, because the agent may be killed: for them it is a lifecycle.PodMemory. Other components leave changes in it at any time
// (observe, wake), for a call in flight.
type podMemory struct {
	uid types.UID
	// firstSeen is when the Syncer was first called for the pod.
	firstSeen time.Time
	records   *recordStore
	// reported is the status that was last reported. It has its own lock.
	reported statusBox
	// secrets are Secret values in the containers' environments.
	secrets podSecrets
	// loading is taken while the record is read, saving is held while it is written.
	loading cancelableLock
	saving  sync.Mutex

	// mu guards the fields below.
	mu sync.Mutex
	// changedAt is when the last SyncPod or termination returned that may have changed the runtime: a status that was
	// read before does not show the change.
	changedAt time.Time
	pod       memory.Pod
	// failures has the back-off for each failed step.
	failures memory.Failures[*StepError]
	// failed are the last reported container errors.
	failed []*StepError
	// mounts has each unfinished start's mounts, by container.
	mounts map[string]startMounts
	// sources has the last answers for variables, nil before the first start.
	sources *knownSources
	// decided is the last plan's input, nil before the first plan.
	decided *actions.Input
	// resize is the last event about a resize, nil if there is none.
	resize *resizeReported
	// handlers are the instances whose postStart handler runs in the call in flight. A container is not reported as running
	// before its handler has ended, as the API documents.
	handlers map[string]bool
	// ends has each instance's channel for Exited.
	ends map[string]chan struct{}
	// observed is the newest status that was observed, nil if there is none. unreported has a value while something about the pod
	// was not reported: that status, or a probe result.
	observed   *runtime.PodStatus
	unreported chan struct{}
}

func newPodMemory(uid types.UID, limits *memory.Limits) *podMemory {
	return &podMemory{
		uid: uid, firstSeen: time.Now(), pod: memory.New(limits), failures: memory.NewFailures[*StepError](limits), unreported: make(chan struct{}, 1),
	}
}

// noteRunOnce records which of the pod's containers must run only once.
func (m *podMemory) noteRunOnce(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Containers.NoteRunOnce(pod)
}

// beginReports notes that a call begins that reports the pod.
func (m *podMemory) beginReports() {
	m.reported.retry()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers = nil // those of a call that was abandoned
}

// setChanged notes that a call returns that may have changed the runtime.
func (m *podMemory) setChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changedAt = time.Now()
}

// isStale reports whether a status may lack the last call's changes. With equal times, a clock does not show which
// came first.
func (m *podMemory) isStale(status *runtime.PodStatus) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.changedAt.IsZero() && !status.ObservedAt.After(m.changedAt)
}

// withoutCutStarts returns a status without the instances whose start was cut short.
func (m *podMemory) withoutCutStarts(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Instances.WithoutCutStarts(status)
}

// see records facts in the newest status that the runtime may lose. read is the status as the runtime reports it; full lacks
// cut starts and has messages. see returns full with the facts that the runtime has lost.
func (m *podMemory) see(read, full *runtime.PodStatus) (complete *runtime.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.SetAsideCutStarts(read)
	m.pod.See(full)
	return m.complete(full)
}

// seeEnd is see for a pod that is being stopped: no start follows, so cut starts stay in the status.
func (m *podMemory) seeEnd(full *runtime.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.See(full)
}

// completed returns a status with what the runtime has lost or does not report.
func (m *podMemory) completed(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.complete(status)
}

func (m *podMemory) complete(status *runtime.PodStatus) *runtime.PodStatus {
	return m.pod.Instances.WithResources(m.pod.Containers.WithStarts(m.pod.Containers.WithSeen(status)))
}

// message returns an instance's termination message, if that was read.
func (m *podMemory) message(id string) (message string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Instances.Message(id)
}

// setMessage records an instance's termination message, and returns the recorded one.
func (m *podMemory) setMessage(id, message string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Instances.SetMessage(id, message)
}

// A shownPod is what the API shows for a pod beyond the runtime's answer.
type shownPod struct {
	status     *runtime.PodStatus
	conditions []v1.PodCondition
	evicted    *apistatus.Problem
	restarting []runtime.ContainerID
	startsOver bool
}

// shown returns what the API shows for a pod with a status, and how far a restart of all containers is then. It must be called
// with mu held.
func (m *podMemory) shown(pod *v1.Pod, status *runtime.PodStatus, restart memory.Restart, terminal, restartReported bool) (shownPod, memory.Restart) {
	p := &m.pod
	status = p.Containers.WithSeen(p.Instances.WithoutCutStarts(m.withoutHandlers(status)))
	s := shownPod{status: p.Instances.WithResources(status), conditions: p.Disruption(), evicted: p.Evicted(), restarting: p.Containers.Restarting(status)}
	if !terminal {
		restart, s.startsOver = restart.Seen(pod, status, restartReported)
	}
	return s, restart
}

// show returns what the API shows for a pod with a status, and remembers how far a restart of all containers is then.
func (m *podMemory) show(pod *v1.Pod, status *runtime.PodStatus, terminal, restartReported bool) shownPod {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, restart := m.shown(pod, status, m.pod.Restart(), terminal, restartReported)
	m.pod.SetRestart(restart)
	return s
}

// forProbes returns a copy of a status in which an instance does not run before its postStart handler has returned.
func (m *podMemory) forProbes(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.withoutHandlers(status)
}

// withoutHandlers returns a status in which the instances whose postStart handler runs were created, but do not run yet. It must
// be called with mu held.
func (m *podMemory) withoutHandlers(status *runtime.PodStatus) *runtime.PodStatus {
	if len(m.handlers) == 0 || status == nil {
		return status
	}
	without := *status
	without.Containers = slices.Clone(status.Containers)
	for i := range without.Containers {
		if c := &without.Containers[i]; c.State == runtime.ContainerRunning && m.handlers[c.ID.ID] {
			c.State, c.StartedAt = runtime.ContainerCreated, time.Time{}
		}
	}
	return &without
}

// The methods below make it a lifecycle.PodMemory.

// Do calls f with the pod's memory while no other call reads or changes it.
func (m *podMemory) Do(f func(*memory.Pod)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.pod)
}

// Mark marks an instance, and reports whether it did not have the mark. The first mark PostStartPending means that the
// instance's postStart handler begins.
func (m *podMemory) Mark(id string, what memory.Mark) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if what == memory.PostStartPending {
		put(&m.handlers, id, true)
	}
	return m.pod.Instances.Mark(id, what)
}

// Unmark removes a mark. The handler has ended when it has no mark PostStartPending.
func (m *podMemory) Unmark(id string, what memory.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Instances.Unmark(id, what)
	if what == memory.PostStartPending {
		delete(m.handlers, id)
	}
}

// Marked reports whether an instance has a mark.
func (m *podMemory) Marked(id string, what memory.Mark) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Instances.Marked(id, what)
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

// noteEnds closes Exited's channels. It must be called with mu held.
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

// The methods below are the mailbox of a call in flight.

// wake makes a call in flight compute the status again.
func (m *podMemory) wake() {
	select {
	case m.unreported <- struct{}{}:
	default: // a value is pending
	}
}

// observe calls memory's Observe, and keeps the newest status for a call in flight.
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

// observedAfter returns the newest observed status if it was read later than another status, and otherwise nil.
func (m *podMemory) observedAfter(status *runtime.PodStatus) *runtime.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.observed == nil || !isNewer(m.observed, status) {
		return nil
	}
	return m.observed
}

// isNewer reports whether a status was read later than another one. None is newer than nil, or than one without a time.
func isNewer(status, than *runtime.PodStatus) bool {
	return than != nil && !than.ObservedAt.IsZero() && status.ObservedAt.After(than.ObservedAt)
}

// newestObserved returns the newest observed status, nil if none has a time.
func (m *podMemory) newestObserved() *runtime.PodStatus {
	return m.observedAfter(&runtime.PodStatus{ObservedAt: time.Unix(0, 1)})
}

// The methods below are called by a plan's steps.

// noteRestarts records which instances are stopped in order to start their containers again, and reports whether there are new
// ones.
func (m *podMemory) noteRestarts(restarts []runtime.ContainerID, status *runtime.PodStatus) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Containers.NoteRestarts(restarts, status)
}

// hasRunSince reports whether a container has run, and this was unknown when the status was read.
func (m *podMemory) hasRunSince(status *runtime.PodStatus, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Containers.HasRunSince(status, name)
}

// crashed counts the exit of a container's current instance, once, and returns until when the next instance has to wait.
func (m *podMemory) crashed(c *v1.Container, last *runtime.ContainerStatus, now time.Time) (until time.Time, wait bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Crashes.Crashed(c, last, now)
}

// setResources notes the resources in force in an instance.
func (m *podMemory) setResources(id string, r runtime.ContainerResources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Instances.SetResources(id, r)
}

// setCPUSet notes the CPUSet in force in an instance, nil if it is unknown.
func (m *podMemory) setCPUSet(id string, s *runtime.CPUSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Instances.SetCPUSet(id, s)
}

// sandboxInUse returns the sandbox that the pod uses, "" if there is none.
func (m *podMemory) sandboxInUse(status *runtime.PodStatus) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Sandbox.InUse(status)
}

// needRecord makes the next Record write one, whatever it says.
func (m *podMemory) needRecord() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.NeedRecord()
}

// sandboxMade records a new sandbox. If replaced is not nil, the next replacement for the same reason waits, with this failure.
func (m *podMemory) sandboxMade(id string, key memory.Key, replaced *StepError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if replaced != nil {
		m.failures.Failed(key, replaced, time.Now())
	}
	m.pod.Sandbox.SetMade(id)
}

// awaitAddress records that the agent waits for a sandbox's address.
func (m *podMemory) awaitAddress(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Sandbox.BeginWait(id)
}

// killBy returns the deadline for a container, or AllOfPod, that stops while the pod keeps running: grace from
// now, or an earlier try's deadline if that is earlier.
func (m *podMemory) killBy(what string, grace time.Duration) time.Time {
	deadline := time.Now().Add(grace)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Kills.Begin(what, deadline)
}

// killed drops killBy's deadlines.
func (m *podMemory) killed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Kills.End(func(string) bool { return false })
}

// evict records why the pod is evicted. The first reason counts.
func (m *podMemory) evict(why *apistatus.Problem, disrupted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Evict(why, disrupted)
}

// hasten returns the earliest deadline that the pod was ever given.
func (m *podMemory) hasten(deadline time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Hasten(deadline)
}

// callOff drops a termination that was not completed, unless ctx has ended: the pod may have to terminate again.
// It reports whether there was such a termination.
func (m *podMemory) callOff(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.CallOff()
}

// held returns the failure that delays a key's next try.
func (m *podMemory) held(key memory.Key, now time.Time) *StepError {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heldBy(key, now)
}

// heldBy is held for callers that hold mu.
func (m *podMemory) heldBy(key memory.Key, now time.Time) *StepError {
	if failure, until, wait := m.failures.Held(key, now); wait {
		return failure.waiting(until)
	}
	return nil
}

// delayRetry delays a failed step's next try, unless the step is not the failure's cause: the agent gave up, or the runtime
// was unavailable. If the same step keeps failing with Unavailable, the step itself crashes the runtime, and it is
// delayed, too.
func (m *podMemory) delayRetry(ctx context.Context, key memory.Key, failed *StepError) {
	if ctx.Err() != nil || errors.Is(failed, cri.ErrCanceled) || !failed.NotBefore.IsZero() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(failed, cri.ErrUnavailable) && m.failures.Excuse(key) {
		return
	}
	failed.NotBefore = m.failures.Failed(key, failed, time.Now())
}

// succeeded forgets a key's failures.
func (m *podMemory) succeeded(key memory.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures.Succeeded(key)
}

// setFailed records the errors that keep containers from running.
func (m *podMemory) setFailed(failed []*StepError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = failed
}

// lastKnown returns sources that answer from memory if the program's are unavailable.
func (m *podMemory) lastKnown(from env.Sources) env.Sources {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sources == nil {
		m.sources = newKnownSources()
	}
	return m.sources.of(from)
}

// close ends the recording, so that abandoned work that returns late does not record a forgotten pod. It waits
// for a record that is being written.
func (m *podMemory) close() {
	if m == nil {
		return
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Close()
}

// memories has each pod's memory until the pod is forgotten.
type memories struct {
	limits  *memory.Limits
	records *recordStore
	mu      sync.Mutex
	pods    map[types.UID]*podMemory
	// undeleted are forgotten pods whose records could not be deleted. A new pod with the UID of one of
	// them is another pod (kubernetes #104648).
	undeleted map[types.UID]bool
}

// get returns a pod's memory, nil if there is none.
func (m *memories) get(uid types.UID) *podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// of returns a pod's memory. It creates one if there is none.
func (m *memories) of(uid types.UID) *podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pods[uid]; p != nil {
		return p
	}
	p := newPodMemory(uid, m.limits)
	p.records = m.records
	if m.undeleted[uid] {
		p.pod.Outdate()
	}
	put(&m.pods, uid, p)
	return p
}

// take removes a pod's memory and returns it, nil if there was none.
func (m *memories) take(uid types.UID) *podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	delete(m.pods, uid)
	return p
}

// deleted notes whether a pod's record could be deleted.
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

// A cancelableLock is a lock whose waiters can give up. The zero value is unlocked.
type cancelableLock struct {
	mu sync.Mutex
	// taken is closed when the lock is released, nil if it is free.
	taken chan struct{}
}

// lock waits for the lock. If ctx ends first, it returns ctx's error.
func (l *cancelableLock) lock(ctx context.Context) error {
	for {
		taken := l.tryLock()
		if taken == nil {
			return nil
		}
		select {
		case <-taken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryLock takes the lock if it is free, and otherwise returns a channel that is closed when it is.
func (l *cancelableLock) tryLock() (taken <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken != nil {
		return l.taken
	}
	l.taken = make(chan struct{})
	return nil
}

// unlock frees the lock.
func (l *cancelableLock) unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.taken)
	l.taken = nil
}
