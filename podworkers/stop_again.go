package podworkers

import "time"

// KillRuntimePod reports that containers in the pod may run although no pending work stops them: abandoned work has
// returned, or the runtime has containers in a pod that is stopping or has stopped (kubernetes #139833).
//
// A syncing pod is synced again, and a terminating pod is stopped again. A terminated pod's containers are stopped
// with SyncTerminatingRuntimePod, and the pod stays in its phase; until that work has succeeded, the pod counts as
// running and is not removed. An unknown pod is stopped like a pod that only the runtime knows.
func (s *Set) KillRuntimePod(now time.Time, pod RuntimePod) Effects {
	p, known := s.pods[pod.UID]
	if !known {
		e, err := s.Update(now, Update{Type: Kill, RuntimePod: &pod})
		if err != nil {
			return Effects{} // without a UID there is nothing to stop
		}
		return e
	}
	if p.phase != Syncing {
		p.mayRun, p.inRuntime = &pod, true
		s.queueStatic(p)
	}
	p.repeat()
	return Effects{Work: p.ready()}
}

// beginStopAgain is the transition to the work that stops a terminated pod's containers.
func (s *state) beginStopAgain(revision uint64) Work {
	w := Work{UID: s.uid, Type: SyncTerminatingRuntimePod, revision: revision, RuntimePod: s.mayRun, Keep: s.phase == Terminated}
	s.mayRun = nil
	s.inFlight, s.inFlightType = revision, w.Type
	return w
}

// stoppedAgain is the transition at the end of that work. If the removal of the pod waited for it, the removal follows.
func (s *Set) stoppedAgain(p *state, pod *RuntimePod, o Outcome) Effects {
	p.inFlight = 0
	switch {
	case o == Failed && p.mayRun == nil:
		p.mayRun = pod
		return Effects{Retry: true}
	case p.phase == Finished && p.removable():
		return s.orphan(p)
	}
	return Effects{Work: p.ready()}
}

// stoppingAgain reports whether that work is in flight.
func (s *state) stoppingAgain() bool {
	return s.inFlight != 0 && s.inFlightType == SyncTerminatingRuntimePod && s.phase.HasStopped()
}

// mustStopAgain reports whether that work is due.
func (s *state) mustStopAgain() bool { return s.mayRun != nil && s.phase.HasStopped() }

// hasStopped reports whether no container in the pod runs or will run.
func (s *state) hasStopped() bool {
	return s.phase.HasStopped() && s.mayRun == nil && !s.stoppingAgain()
}

// isFinished reports whether only the pod's removal is left to do.
func (s *state) isFinished() bool { return s.phase.HasFinished() && s.hasStopped() }

// ready reports whether the pod has work that can start. The removal of a pod waits until
// its abandoned work has returned.
func (s *state) ready() bool {
	due := s.pending != nil
	if s.phase.IsOrphan() {
		due = s.toRemove && len(s.abandoned) == 0
	}
	return s.inFlight == 0 && (due || s.mustStopAgain())
}
