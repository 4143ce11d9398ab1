package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/store"
)

// podStates holds each pod's state in addition to its definition, and to its phase, which the workers
// have: its reported status, and the work's progress on it. A pod that the workers do not know has a state if an earlier agent has
// left records for it. The workers report changes also while podTable.mu is held, so it has its
// own lock, which is held only briefly and never across a call.
type podStates struct {
	mu   sync.Mutex
	pods map[types.UID]*podState
	// ends is the number of changes after which another set of pods runs: a pod has stopped, or its reported phase has become
	// terminal.
	ends uint64
}

// A podState is one pod's state.
type podState struct {
	// status is the last reported one, or the one recorded by an earlier agent, nil if there is
	// none.
	status *v1.PodStatus
	// undelivered means that status must still be delivered: it is the Loop's own, or an earlier agent's,
	// which may have ended before it delivered the status.
	undelivered bool
	// drained means that the pod stops because the agent ends: its end is not stored.
	drained bool

	// calls is the number of calls in flight. worked is new in each life of the pod, and is set by the first
	// call. It stays valid for its readers after the workers have forgotten the pod.
	calls  int
	worked *atomic.Bool
	// work is the last call that began, begun when that was. slowAt is when it takes too long, zero if it has ended.
	work          podworkers.WorkType
	begun, slowAt time.Time
	// acted means that the current call has changed something. leaves is the error of the steps that it leaves
	// undone.
	acted  bool
	leaves error
	// err is the last call's error. held joins the failures that it did not retry because
	// their back-off has not ended.
	err, held error
	// since is when the pod last had neither of the two errors.
	since time.Time
	// stoppedAt is when the pod was last found to have stopped.
	stoppedAt time.Time
	// inspectedAt is when the work that stops the pod last inspected it. It is zero if the work has not inspected
	// it, if the result is not in the cache, or if the pod was changed since.
	inspectedAt time.Time
	// sandboxesStopped are the IDs of sandboxes that existed when the stop of the pod began, and
	// are stopped, so that their network is released.
	sandboxesStopped []string
}

// of returns a pod's state. It must be called with mu held.
func (s *podStates) of(uid types.UID) *podState {
	state := s.pods[uid]
	if state == nil {
		state = &podState{}
		s.pods[uid] = state
	}
	return state
}

// get returns a pod's state.
func (s *podStates) get(uid types.UID) podState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.pods[uid]; state != nil {
		return *state
	}
	return podState{}
}

// update changes a pod's state.
func (s *podStates) update(uid types.UID, change func(*podState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.of(uid)
	before := state.over()
	if change(state); state.over() != before {
		s.ends++
	}
}

// updateKnown changes the state of a pod that has one.
func (s *podStates) updateKnown(uid types.UID, change func(*podState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.pods[uid]; state != nil {
		change(state)
	}
}

func (s *podStates) delete(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	s.ends++
}

// ended notes that a pod has stopped.
func (s *podStates) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends++
}

func (s *podStates) endsNow() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends
}

// worked returns a flag that is set after the first sync of a pod that the workers know.
func (s *podStates) worked(uid types.UID) *atomic.Bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.of(uid)
	if state.worked == nil {
		state.worked = new(atomic.Bool)
	}
	return state.worked
}

// uids returns the pods with a state, sorted.
func (s *podStates) uids() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.pods))
}

// over reports whether the pod's last reported phase is terminal.
func (s *podState) over() bool { return s.status != nil && runtime.IsTerminal(s.status.Phase) }

// busy reports whether a pod with that phase is in transition from one state to another.
func (s *podState) busy(phase podworkers.Phase) bool {
	switch {
	case s.calls > 0 || s.err != nil || phase == podworkers.Terminating:
		return true
	case phase == podworkers.Syncing:
		return s.status == nil || s.status.Phase == v1.PodPending
	}
	return false
}

// trouble returns the error that keeps the pod from its desired state, nil if there is none.
func (s *podState) trouble() error {
	if s.err != nil {
		return s.err
	}
	return s.held
}

// slowWork is how long a call may take, beyond a stop's deadline, before Health names it.
const slowWork = 10 * time.Minute

// started records the beginning of work that is no removal.
func (s *podState) started(w podworkers.Work, now time.Time) {
	s.calls++
	s.begin(w, now)
	if w.Type != podworkers.SyncTerminatedPod { // SyncTerminatedPod does not change the pod
		s.inspectedAt = time.Time{}
	}
}

// begin records the work in flight.
func (s *podState) begin(w podworkers.Work, now time.Time) {
	s.work, s.begun, s.slowAt = w.Type, now, now.Add(slowWork)
	if w.Deadline.After(now) {
		s.slowAt = w.Deadline.Add(slowWork)
	}
}

// isSlow reports whether the call in flight takes too long.
func (s *podState) isSlow(now time.Time) bool { return !s.slowAt.IsZero() && !now.Before(s.slowAt) }

// ended records the result of work. It reports whether the work has changed something.
func (s *podState) ended(w podworkers.Work, err error, at time.Time) (acted bool) {
	s.calls--
	s.slowAt = time.Time{}
	if s.trouble() == nil {
		s.since = at
	}
	s.err, s.held = err, s.leaves
	acted, s.acted, s.leaves = s.acted, false, nil
	if err == nil && (w.Type == podworkers.SyncTerminatingRuntimePod || w.Type == podworkers.SyncTerminatingPod) {
		s.stoppedAt = at
	} else if w.Type != podworkers.SyncTerminatedPod { // SyncTerminatedPod does not change the pod
		s.inspectedAt = time.Time{}
	}
	return acted
}

// inspectionCovers reports whether the last inspection of a stop shows everything done to the pod until
// then.
func (s *podState) inspectionCovers(then time.Time) bool {
	return !s.inspectedAt.IsZero() && !s.stoppedAt.IsZero() && !then.After(s.stoppedAt)
}

// sink receives pod statuses, stores them, and passes them on to the embedder. Neither depends
// on the success of the other (virtual-kubelet #938).
type sink struct {
	*podStates
	// seen returns a pod's last status in the runtime.
	seen  func(types.UID) *runtime.PodStatus
	store store.Store
	next  syncpod.StatusSink // nil if the embedder has none
}

var _ syncpod.StatusKeeper = sink{}

// KeepPodStatus stores the status before the embedder gets it, so that the next agent cannot take
// back a reported status. The Syncer shares the status; neither modifies it.
func (s sink) KeepPodStatus(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) error {
	s.update(pod.UID, func(s *podState) { s.status, s.undelivered = status, false })
	return s.deliver(ctx, pod, *status.DeepCopy())
}

// repeat delivers the status of a pod that the Syncer has not delivered, if there is one. It is called
// after the Syncer's work: an earlier agent's stored status may be older than the one that the agent
// reported.
func (s sink) repeat(ctx context.Context, pod *v1.Pod) error {
	state := s.get(pod.UID)
	if !state.undelivered || state.status == nil || ctx.Err() != nil {
		return ctx.Err() // a cancelled call must not report after its successors
	}
	if err := s.deliver(ctx, pod, *state.status.DeepCopy()); err != nil {
		return err
	}
	s.update(pod.UID, func(s *podState) { s.undelivered = s.undelivered && s.status != state.status })
	return nil
}

// deliveryTimeout bounds each delivery of a status, as a Syncer without a Loop does.
const deliveryTimeout = 5 * time.Second

// deliver stores a status and passes it on. All statuses take this path: those of the Syncer, and those of pods that it has not
// synced.
func (s sink) deliver(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	var errs []error
	if !s.get(pod.UID).drained && !mayComeAgain(pod) {
		if err := s.keep(ctx, pod, status); err != nil {
			errs = append(errs, fmt.Errorf("store: %w", err))
		}
	}
	if s.next != nil {
		errs = append(errs, s.next.SetPodStatus(ctx, pod, status))
	}
	return errors.Join(errs...)
}

func (s sink) keep(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	return s.store.SetStatus(ctx, store.Status{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: status, Runtime: s.seen(pod.UID)})
}

// mayComeAgain reports whether a pod may return after its end, so that its end must not be recorded: a static pod whose
// manifest was removed has the same UID when the manifest is added again, and must then run, even if the agent was
// killed in the meantime.
func mayComeAgain(pod *v1.Pod) bool { return runtime.IsStatic(pod) && pod.DeletionTimestamp != nil }

// If the disk cannot be read, reads are retried with back-off for restoreTimeout. Nothing else happens in the
// meantime: an agent that does not know which pods have finished would run them again (kubernetes #105527).
const (
	restoreTimeout  = time.Minute
	firstRestoreTry = 100 * time.Millisecond
	lastRestoreTry  = time.Second
)

// restore reads the statuses that an earlier agent has reported, and the list of pods with records.
func (l *Loop) restore(ctx context.Context) {
	defer l.before.restored()
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	for wait := firstRestoreTry; ; wait = min(2*wait, lastRestoreTry) {
		lost, err := l.tryRestore(ctx)
		l.table.mu.Lock()
		l.storeErr = errors.Join(lost, err)
		l.table.mu.Unlock()
		if lost != nil {
			l.config.Log.Error(lost, "some statuses of pods are lost")
		}
		if err == nil {
			return
		}
		l.config.Log.Error(err, "the stored statuses of pods cannot be read")
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// tryRestore loads everything readable; loading twice makes no difference. It distinguishes data
// that is lost from data that may be readable later.
func (l *Loop) tryRestore(ctx context.Context) (lost, err error) {
	statuses, err := l.config.Store.Load(ctx)
	if errors.Is(err, store.ErrLost) {
		lost, err = err, nil
	}
	recorded, recordsErr := l.syncer.RecordedPods(ctx)
	l.before.add(statuses)
	for _, r := range statuses {
		l.states.update(r.UID, func(s *podState) {
			if r.Status.Phase != "" {
				s.status, s.undelivered = new(r.Status), true // and not all of r, for as long
			}
		})
	}
	for _, uid := range recorded {
		l.states.update(uid, func(*podState) {})
	}
	return lost, errors.Join(err, recordsErr)
}
