package podworkers

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// state is one pod's state. Its methods are the transitions: they change only this
// pod's state, and return the effects.
type state struct {
	uid   types.UID
	phase Phase
	// started means that work has been handed out.
	started bool
	// inRuntime means that the runtime knows the pod. This agent or an earlier one has started it.
	inRuntime bool
	// stopping means that work that stops the pod has been handed out, or that the pod had finished before. No
	// container in the pod may start.
	stopping bool
	// deleted means that no source wants the pod any more.
	deleted bool
	// evicted means that the pod was stopped by an eviction.
	evicted bool
	// unwanted means that, according to the last SyncKnownPods, no source wants the pod. If the pod was being stopped
	// again at that time, it is removed when that stop has succeeded.
	unwanted bool
	// recreated means that a source wants a new pod with the UID of this one.
	recreated bool
	// removal is the removal's reason, NotRemoved before the pod is orphaned.
	removal Removal
	// toRemove means that RemovePod is due, for the first time or as a retry.
	toRemove bool
	// abandoned are the abandoned calls that have not returned.
	abandoned []uint64
	// successor is the last update to a new pod with the UID of this one. The new pod begins when this one
	// is forgotten.
	successor *Update
	// mayRun is set if a container in the pod may have started after the last stop had inspected the pod, so that the
	// pod must be stopped again.
	mayRun *RuntimePod

	// grace is the grace period in seconds, zero if it is not set.
	grace int64
	// deadline is the grace period's end, zero if it has not begun.
	deadline time.Time
	// report is the first StopReport of the requests.
	report *StopReport

	// fullName is the name_namespace that only one static pod may have at a time.
	fullName string
	// pending is the last update for which no work was handed out.
	pending *Update
	// active is the update of the last work that was handed out.
	active *Update
	// inFlight is the work in flight; zero if there is none.
	inFlight uint64
	// inFlightType is the type of the work in flight.
	inFlightType WorkType
	// waiting are the stop requests without an answer.
	waiting []StopID
}

// first returns a new pod's state before its first update u. If the pod has finished at its source and has no
// running container, an earlier agent has stopped it: only the cleanup is left, and may have been done already
// (kubernetes #105527, #117019).
func first(uid types.UID, u Update) *state {
	s := &state{uid: uid, fullName: fullName(u), inRuntime: u.Pod != nil && u.RuntimePod != nil}
	if u.Pod != nil && runtime.IsTerminal(u.Pod.Status.Phase) && u.Status != nil && !anyAlive(u.Status) {
		s.phase, s.stopping = Terminated, true
	}
	return s
}

func anyAlive(status *runtime.PodStatus) bool {
	for i := range status.Containers {
		if status.Containers[i].State == runtime.ContainerRunning {
			return true
		}
	}
	for i := range status.Sandboxes {
		if status.Sandboxes[i].State == runtime.SandboxReady {
			return true
		}
	}
	return false
}

// update is the transition on a pod update. isNew is set for the first update.
func (s *state) update(u Update, isNew bool, now time.Time) Effects {
	if u.Pod != nil && u.Type != Kill {
		s.unwanted = false
	}
	if s.phase.IsOrphan() {
		s.succeed(u)
		return stopped(u.Stop)
	}
	if s.phase != Syncing && !isNew && (u.Type == Kill || s.recreated) {
		s.succeed(u)
	}
	if s.phase != Syncing && !isNew && u.Type == Create {
		s.recreated = true
		s.succeed(u)
		if s.phase == Terminating {
			s.await(u.Stop)
			return Effects{}
		}
		return stopped(u.Stop)
	}
	if s.phase == Finished {
		return stopped(u.Stop)
	}
	before := s.phase
	s.stopIfAsked(u)
	if s.phase == Terminated && u.Pod == nil {
		return stopped(u.Stop) // the runtime's report is outdated
	}
	if u.Pod == nil {
		s.inRuntime = true
		u.Pod = s.definition()
	}
	u.Status = nil // only the first update needs it, and it is large
	e := Effects{Work: s.inFlight == 0}
	if s.phase != Terminating {
		e.Stopped = stopped(u.Stop).Stopped
		u.Stop = nil
	} else {
		shortened := s.stopWithin(&u, now)
		e.Interrupt = s.inFlight != 0 && (before == Syncing || shortened)
	}
	s.pending = &u
	return e
}

// definition returns the pod's last definition, nil if only the runtime knows the pod.
func (s *state) definition() *v1.Pod {
	switch {
	case s.pending != nil && s.pending.Pod != nil:
		return s.pending.Pod
	case s.active != nil:
		return s.active.Pod
	}
	return nil
}

// stopIfAsked makes a syncing pod terminating if the update requests that.
func (s *state) stopIfAsked(u Update) {
	if s.phase != Syncing {
		return
	}
	switch {
	case u.Pod == nil:
		s.phase, s.deleted = Terminating, true
	case u.Pod.DeletionTimestamp != nil:
		s.phase, s.deleted = Terminating, true
	case runtime.IsTerminal(u.Pod.Status.Phase):
		s.phase = Terminating
	case u.Type == Kill:
		s.phase, s.evicted = Terminating, u.Stop != nil && u.Stop.Evict
	}
}

// stopWithin sets the grace period of a terminating pod and of the update. The grace period only becomes shorter;
// stopWithin reports whether it did.
func (s *state) stopWithin(u *Update, now time.Time) (shortened bool) {
	request := StopRequest{}
	if u.Stop != nil {
		request = *u.Stop
	}
	s.await(&request)
	if s.report == nil {
		s.report = request.Report
	}
	grace := effectiveGrace(s.grace, u.Pod, request.GracePeriodSeconds)
	shortened = s.grace != 0 && grace != s.grace
	s.grace = grace
	s.deadline = earlier(s.deadline, now, grace)
	request.GracePeriodSeconds = &grace
	u.Stop = &request
	return shortened
}

// await keeps a request, to answer it when the pod has stopped.
func (s *state) await(r *StopRequest) {
	if r != nil && r.ID != 0 {
		s.waiting = append(s.waiting, r.ID)
	}
}

// begin is the transition to work on the pending update.
func (s *state) begin(revision uint64, now time.Time) Work {
	s.active, s.pending, s.started = s.pending, nil, true
	w := Work{UID: s.uid, revision: revision, UpdateType: s.active.Type, Pod: s.active.Pod}
	switch s.phase {
	case Terminating:
		s.beginStop(&w, now)
	case Terminated:
		w.Type, w.Report = SyncTerminatedPod, s.report
	}
	s.inFlight, s.inFlightType = revision, w.Type
	return w
}

// waitsForName reports whether the pod is a static pod that has not started, and has no containers to stop in the
// runtime.
func (s *state) waitsForName() bool {
	return !s.started && !(s.inRuntime && s.phase != Syncing) && runtime.IsStatic(s.pending.Pod)
}

// beginStop makes w the work that stops the pod. Without a stop request, the grace period begins now.
func (s *state) beginStop(w *Work, now time.Time) {
	s.stopping, s.mayRun = true, nil
	if w.Pod == nil {
		w.Type, w.RuntimePod = SyncTerminatingRuntimePod, s.active.RuntimePod
		return
	}
	s.deadline = earlier(s.deadline, now, effectiveGrace(s.grace, w.Pod, nil))
	w.Type, w.Deadline, w.Report = SyncTerminatingPod, s.deadline, s.report
	if stop := s.active.Stop; stop != nil {
		grace := *stop.GracePeriodSeconds
		w.GracePeriodSeconds = &grace
	}
}

// done is the transition at the end of the work in flight.
func (s *state) done(o Outcome) Effects {
	work := s.inFlightType
	s.inFlight = 0
	switch {
	case s.mayRun != nil && s.phase == Terminating:
		return Effects{Work: true}
	case o == Failed:
		return Effects{Work: s.pending != nil, Retry: s.pending == nil}
	case work == SyncTerminatedPod, work == SyncTerminatingRuntimePod:
		return s.finish()
	case work == SyncTerminatingPod:
		return s.terminated()
	case o == SucceededTerminal:
		if s.phase == Syncing {
			s.grace = ownGrace(s.active.Pod)
		}
		s.phase, s.stopping = Terminating, true
		s.repeat()
	}
	return Effects{Work: s.pending != nil}
}

func (s *state) terminated() Effects {
	s.phase = Terminated
	s.repeat()
	return Effects{Work: true, Stopped: s.takeWaiting()}
}

// finish is the transition to Finished. It answers the waiting stop requests, because
// nothing is left to stop.
func (s *state) finish() Effects {
	s.phase, s.pending = Finished, nil
	return Effects{Stopped: s.takeWaiting(), Work: s.mustStopAgain()}
}

// takeWaiting removes and returns the waiting stop requests.
func (s *state) takeWaiting() []StopID {
	ids := s.waiting
	s.waiting = nil
	return ids
}

// repeat makes the last work due again, unless an update is pending or nothing is left to do.
func (s *state) repeat() {
	if s.phase.IsOrphan() {
		s.toRemove = s.toRemove || s.inFlight == 0
		return
	}
	if s.pending == nil && s.phase != Finished {
		u := *s.active
		u.Type = Sync
		s.pending = &u
	}
}

func stopped(r *StopRequest) Effects {
	if r == nil || r.ID == 0 {
		return Effects{}
	}
	return Effects{Stopped: []StopID{r.ID}}
}
