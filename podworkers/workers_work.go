package podworkers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// worker is the scheduler's state of a pod; the Set has the rest.
type worker struct {
	uid types.UID
	// state belongs to the Set and is only read.
	state *state
	// phase is the pod's last reported phase.
	phase  Phase
	queued queueID
	// failures is the number of failures in a row; err is the last one.
	failures int
	err      error
	// job is the work in flight, nil if the pod is idle.
	job *job
	// syncedAt is the time when the last work ended: a status that was read before does not show
	// its results.
	syncedAt time.Time
	timer    timerEntry
}

// appendMoves appends the changes from the last reported phase to the pod's phase in the
// Set. It never skips Finished.
func (p *worker) appendMoves(moves []moved) []moved {
	to := p.state.phase
	if !p.phase.HasFinished() && to.IsOrphan() {
		moves = append(moves, moved{p.uid, p.phase, Finished})
		p.phase = Finished
	}
	if p.phase != to {
		moves = append(moves, moved{p.uid, p.phase, to})
		p.phase = to
	}
	return moves
}

// mayStart reports whether there is work that can start now.
func (s *scheduler) mayStart() bool { return s.stage == running && s.ready.any() }

// nextJob returns the next job, nil if there is none.
func (s *scheduler) nextJob(changes *changes) *job {
	for s.mayStart() {
		if p := s.ready.take(); p != nil {
			if j := s.startJob(p, changes); j != nil {
				return j
			}
		}
	}
	return nil
}

// startJob begins the work of an idle pod, if it has any.
func (s *scheduler) startJob(p *worker, changes *changes) *job {
	work, ok, e := s.set.next(changes.now, p.state)
	if !ok {
		s.applyTo(p, p.uid, e, changes)
		return nil
	}
	changes.moves = p.appendMoves(changes.moves)
	if work.Type == SyncPod {
		s.ready.syncing++
	}
	s.timers.clear(p)
	if p.job = s.spare; p.job == nil {
		p.job = new(job)
	}
	s.spare = nil
	ctx, cancel := context.WithCancelCause(s.base)
	*p.job = job{Work: work, pod: p, ctx: ctx, cancel: cancel, started: changes.now, since: p.syncedAt}
	if work.Type == SyncTerminatingRuntimePod || work.Type == RemovePod && p.syncedAt.IsZero() {
		// Another component has seen the pod, perhaps after the last status was read. With an older
		// status, a container could be killed together with its sandbox, or left running.
		p.job.since = changes.now
	}
	return p.job
}

// clearJob records that the pod has no work in flight.
func (s *scheduler) clearJob(p *worker, now time.Time) {
	if p.job.Type == SyncPod {
		s.ready.syncing--
	}
	if p.job.Type != SyncTerminatedPod { // SyncTerminatedPod changes nothing in the runtime
		p.syncedAt = now
	}
	p.job = nil
}

// interrupt cancels the pod's work in flight, and gives it abandonAfter to return.
func (s *scheduler) interrupt(p *worker, now time.Time) {
	if p.job.interrupted {
		return
	}
	p.job.interrupted = true
	p.job.cancel(ErrInterrupted)
	s.timers.set(p, now.Add(s.config.abandonAfter))
}

// abandon gives up on the pod's work in flight, so that the pod can get other work.
func (s *scheduler) abandon(p *worker, changes *changes) {
	j := p.job
	changes.abandoned = append(changes.abandoned, j.Work)
	s.clearJob(p, changes.now)
	s.apply(p.uid, s.set.Abandon(j.Work), changes)
}

// endJob records a job's end.
func (s *scheduler) endJob(j *job, end ended, changes *changes) {
	p := j.pod
	if p.job != j {
		s.late(j, end.outcome(), changes)
		return
	}
	s.clearJob(p, changes.now)
	e := s.set.done(p.state, j.Work, end.outcome())
	s.applyTo(p, p.uid, e, changes)
	s.scheduleNext(j, e, end, changes)
	s.spare = j
}

// scheduleNext schedules the next work of an idle pod: a retry after a failure, or a resync. Failures of cancelled calls are
// not counted.
func (s *scheduler) scheduleNext(j *job, e Effects, end ended, changes *changes) {
	p := j.pod
	wait := waiter{s.config, j.UID, changes.now}
	var in time.Duration
	resetFailures := false
	switch {
	case e.Retry:
		in = wait.retryIn(j.Type, end.err, p.failures+1, end.Next)
		if left := j.Deadline.Sub(changes.now); j.Type == SyncTerminatingPod && left > 0 && left < in {
			in, resetFailures = left, true // at the deadline the stop kills; its first failure is retried soon
		}
		s.timers.set(p, changes.now.Add(in))
	case p.phase == Syncing:
		s.timers.set(p, changes.now.Add(wait.resyncIn(end.Next)))
	}
	switch {
	case end.err == nil:
		p.failures, p.err = 0, nil
	case !j.interrupted:
		p.failures, p.err = p.failures+1, end.err
		changes.failed = &failure{work: j.Work, err: end.err, retryIn: in}
	}
	if resetFailures {
		p.failures = 0
	}
}

// late records the return of abandoned work. Its outcome is ignored, but the abandoned call may have
// changed the pod after later work had inspected it: so the pod is inspected again.
func (s *scheduler) late(j *job, o Outcome, changes *changes) {
	if j.Type == SyncPod {
		pod := RuntimePod{UID: j.UID, Name: j.Pod.Name, Namespace: j.Pod.Namespace}
		s.apply(j.UID, s.set.KillRuntimePod(changes.now, pod), changes)
	}
	s.apply(j.UID, s.set.Done(j.Work, o), changes)
	if p := s.pods[j.UID]; p != nil {
		p.syncedAt = changes.now
	}
}
