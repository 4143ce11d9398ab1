package podworkers

import "time"

// KillRuntimePod reports that containers of the pod may run that no pending work stops: abandoned work has
// returned, or the runtime has containers of a pod that is stopping or has stopped (kubernetes #139833).
//
// A syncing pod is synced again, and a terminating pod is stopped again. The containers of a pod that has
// terminated are stopped with SyncTerminatingRuntimePod, and the phase of the pod stays; until that work has
// succeeded, the pod counts as running and is not removed. An unknown pod is stopped as a pod that only
// the runtime knows.
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
		p.stray, p.inRuntime = &pod, true
		s.takeTurns(p)
	}
	p.repeat()
	return Effects{Work: p.ready()}
}

// sweep is the transition to the work that stops the containers of a pod that has terminated.
func (s *state) sweep(revision Revision) Work {
	w := Work{UID: s.uid, Type: SyncTerminatingRuntimePod, Revision: revision, RuntimePod: s.stray}
	s.stray = nil
	s.inFlight, s.inFlightType = revision, w.Type
	return w
}

// swept is the transition on the end of a sweep. A removal that waited for the sweep follows.
func (s *Set) swept(p *state, pod *RuntimePod, o Outcome) Effects {
	p.inFlight = 0
	switch {
	case o == Failed && p.stray == nil:
		p.stray = pod
		return Effects{Retry: true}
	case p.phase == Finished && p.removable():
		return s.orphan(p)
	}
	return Effects{Work: p.ready()}
}

// sweeping reports whether a sweep is in flight.
func (s *state) sweeping() bool {
	return s.inFlight != 0 && s.inFlightType == SyncTerminatingRuntimePod && s.phase >= Terminated
}

// toSweep reports whether a sweep is due.
func (s *state) toSweep() bool { return s.stray != nil && s.phase >= Terminated }

// quiet reports whether no container of the pod runs or will run.
func (s *state) quiet() bool { return s.phase >= Terminated && s.stray == nil && !s.sweeping() }

// over reports whether only the removal of the pod is left to do.
func (s *state) over() bool { return s.phase >= Finished && s.quiet() }

// ready reports whether the pod has work that could begin. Its removal waits until
// abandoned work has returned.
func (s *state) ready() bool {
	due := s.pending != nil
	if s.phase > Finished {
		due = s.toRemove && len(s.abandoned) == 0
	}
	return s.inFlight == 0 && (due || s.toSweep())
}
