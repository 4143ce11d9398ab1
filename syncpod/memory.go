package syncpod

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// memory is what a Syncer remembers of one pod. What is in its Record outlives the
// agent if there are Records. The rest is lost with it: then a container may start sooner
// than its back-off says.
type memory struct {
	uid types.UID
	// firstSeen is when the Syncer was first told of the pod.
	firstSeen time.Time
	// status is what was last reported. It has a lock of its own.
	status *statusBox

	// mu guards all that follows, but for loading and saving.
	mu sync.Mutex
	// crashes holds up containers that end, setups those that cannot be made.
	crashes, setups *backoff.Backoff[backoffKey]
	// counted is the last instance of each container whose end crashes was told of.
	counted map[string]crash
	// failures are the last failures to make a container, by the key held up.
	failures map[backoffKey]*StepError
	// attempts are the next attempt of each container, as far as is known here.
	attempts map[string]uint32
	// ran are the containers of which an instance was, or may have been, started.
	ran map[string]bool
	// scanned are the containers whose logs have been looked at for attempts.
	scanned map[string]bool
	// refused counts the refusals of each container's next name.
	refused map[string]int
	// unhooked are instances that were started and whose postStart handler has not
	// been seen to end.
	unhooked map[string]bool
	// asked are instances that were asked to start, without an answer.
	asked map[string]bool
	// signalled are instances that were sent their stop signal, and preStopped those
	// whose preStop handler was run: neither is done twice.
	signalled, preStopped map[string]bool
	// preStopEnded are those whose preStop handler has ended by itself.
	preStopEnded map[string]bool
	// resources are those in force, by instance.
	resources map[string]runtime.ContainerResources
	// deadline is the earliest end that the pod was given, zero while it may run.
	deadline time.Time
	// calledOff: the pod was to run before its record was loaded, so that an end which
	// the record tells of was called off.
	calledOff bool
	// killBy are the deadlines of what has to go while the pod goes on: that of an
	// instance by its ID, that of all there is by allOfPod.
	killBy map[string]time.Time
	// restartAll is set from the exit that asks for all containers to restart until
	// all of them are removed.
	restartAll bool
	// failed is what was last reported to keep containers from running.
	failed []*StepError
	// evicted is why the pod was put off the node, nil if it was not.
	evicted *apistatus.Problem
	// messages are the termination messages of exited containers, by instance.
	messages map[string]string
	// sandbox is the one that was last made here, and unaddressed one that is, or
	// was, waited for to get an address.
	sandbox, unaddressed string
	// once are the containers of the pod that are to run once.
	once map[string]bool
	// seen are the current instances, by name, that have exited, and those of the
	// containers in once that were started. They may not be there any more.
	seen map[string]runtime.ContainerStatus
	// reset are the least attempts of containers that were not removed so that all starts
	// over: a look from before that may be heard of late.
	reset map[string]uint32
	// lost are those of seen that were started, and that the last look did not show.
	lost map[runtime.ContainerID]bool
	// loaded is set once the pod's record is part of this, saved is that record.
	loaded bool
	saved  Record
	// outdated: what is recorded is of an earlier pod with this UID.
	outdated bool
	// gone: the pod is gone, and nothing of it is recorded any more.
	gone bool
	// loading has room for who reads the record, saving is held while it is written.
	loading chan struct{}
	saving  sync.Mutex
}

// evict notes why the pod is put off the node, the first time.
func (m *memory) evict(why *apistatus.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.evicted == nil && why != nil {
		m.evicted = new(*why)
	}
}

func (m *memory) evictedFor() *apistatus.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.evicted
}

// crash is the end of one instance.
type crash struct {
	id runtime.ContainerID
	at time.Time
}

// backoffKey is what has to be the same for a failure to hold up the next try: a
// container whose image or resources change may run at once.
type backoffKey struct {
	container, image, resources string
}

func newMemory(uid types.UID, c *Config) *memory {
	crashes, _ := c.newBackoff(false) // New has made one, so it does not fail
	setups, _ := c.newBackoff(true)
	return &memory{
		uid:     uid,
		crashes: crashes, setups: setups,
		counted: map[string]crash{}, failures: map[backoffKey]*StepError{},
		attempts: map[string]uint32{}, scanned: map[string]bool{}, refused: map[string]int{},
		ran: map[string]bool{}, unhooked: map[string]bool{}, asked: map[string]bool{},
		signalled: map[string]bool{}, preStopped: map[string]bool{}, preStopEnded: map[string]bool{},
		resources: map[string]runtime.ContainerResources{},
		seen:      map[string]runtime.ContainerStatus{}, killBy: map[string]time.Time{},
		firstSeen: time.Now(), status: newStatusBox(), messages: map[string]string{}, reset: map[string]uint32{}, loading: make(chan struct{}, 1),
	}
}

func keyOf(c *v1.Container) backoffKey {
	return backoffKey{c.Name, c.Image, c.Resources.String()}
}

// crashed tells of the end of a container's current instance, once, and returns
// until when the next one has to wait.
func (m *memory) crashed(c *v1.Container, last *runtime.ContainerStatus, now time.Time) (until time.Time, wait bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(c)
	if before := m.counted[c.Name]; before.id != last.ID {
		at := last.FinishedAt
		if at.Equal(before.at) {
			at = time.Time{} // two ends, by a clock too coarse to tell them apart
		}
		m.counted[c.Name] = crash{last.ID, last.FinishedAt}
		m.crashes.Advance(key, now, at)
	}
	return m.crashes.Check(key, now)
}

// held returns the failure for which the next try of what key holds up has to wait.
func (m *memory) held(key backoffKey, now time.Time) *StepError {
	m.mu.Lock()
	defer m.mu.Unlock()
	until, wait := m.setups.Check(key, now)
	if !wait || m.failures[key] == nil {
		return nil
	}
	return m.failures[key].waiting(until)
}

// setupFailed notes that something could not be made, and returns until when the
// next try has to wait.
func (m *memory) setupFailed(key backoffKey, err *StepError, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures[key] = err
	return m.setups.Advance(key, now, time.Time{})
}

func (m *memory) setupSucceeded(key backoffKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setups.Forget(key)
	delete(m.failures, key)
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

// mark notes something about an instance, and reports whether it was new.
func (m *memory) mark(set map[string]bool, id string) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = !set[id]
	set[id] = true
	return first
}

func (m *memory) unmark(set map[string]bool, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(set, id)
}

func (m *memory) marked(set map[string]bool, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return set[id]
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
	clear(m.signalled)
	clear(m.preStopped)
	clear(m.preStopEnded)
	return true
}

// allOfPod stands for all containers of a pod, which have to go with their sandbox.
const allOfPod = ""

// beginKill returns the deadline of what has to go while the pod goes on: the earliest that
// was given, however often the kill has to be tried.
func (m *memory) beginKill(what string, deadline time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killBy[what] = earliest(m.killBy[what], deadline)
	return m.killBy[what]
}

// endKills forgets the deadlines of what does not have to go any more.
func (m *memory) endKills(goes func(what string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.killBy, func(what string, _ time.Time) bool { return !goes(what) })
}

// restartsAll reports whether all containers are to restart: it is requested, or
// was and has not ended yet.
func (m *memory) restartsAll(requested bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restartAll = m.restartAll || requested
	return m.restartAll
}

func (m *memory) endRestartAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restartAll = false
}
