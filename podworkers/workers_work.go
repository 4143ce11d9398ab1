package podworkers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// worker is the scheduler's part of a pod, beside its state in the Set.
type worker struct {
	uid types.UID
	// state belongs to the Set and is only read.
	state *state
	// phase is the pod's phase that was reported last.
	phase  Phase
	queued place
	// failures is the number of failures in a row; err is the last one.
	failures int
	err      error
	// job is the work in flight, nil if the pod is idle.
	job *job
	// syncedAt is when the last work ended: a status read before it does not show
	// what that work did.
	syncedAt time.Time
	timer    timerEntry
}

// moveOn appends the steps from the phase that was reported last to the pod's phase in the
// Set. Finished is always one of them.
func (p *worker) moveOn(moves []moved) []moved {
	to := p.state.phase
	if p.phase < Finished && to > Finished {
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

// next returns the next job, nil if there is none.
func (s *scheduler) next(then *change) *job {
	for s.mayStart() {
		if p := s.ready.next(); p != nil {
			if j := s.start(p, then); j != nil {
				return j
			}
		}
	}
	return nil
}

// start begins the work of an idle pod, if it has any.
func (s *scheduler) start(p *worker, then *change) *job {
	work, ok, e := s.set.next(then.now, p.state)
	if !ok {
		s.followFor(p, p.uid, e, then)
		return nil
	}
	then.moved = p.moveOn(then.moved)
	if work.Type == SyncPod {
		s.ready.syncing++
	}
	s.timers.clear(p)
	if p.job = s.spare; p.job == nil {
		p.job = new(job)
	}
	s.spare = nil
	ctx, cancel := context.WithCancelCause(s.base)
	*p.job = job{Work: work, pod: p, ctx: ctx, cancel: cancel, started: then.now, since: p.syncedAt}
	if work.Type == SyncTerminatingRuntimePod || work.Type == RemovePod && p.syncedAt.IsZero() {
		// Another component has seen the pod, perhaps later than the last status was read. By
		// that status a container would be killed with its sandbox, or left.
		p.job.since = then.now
	}
	return p.job
}

// leave ends the pod's work in flight.
func (s *scheduler) leave(p *worker, now time.Time) {
	if p.job.Type == SyncPod {
		s.ready.syncing--
	}
	if p.job.Type != SyncTerminatedPod { // which does nothing in the runtime
		p.syncedAt = now
	}
	p.job = nil
}

// interrupt cancels the pod's work in flight, and gives it AbandonAfter to return.
func (s *scheduler) interrupt(p *worker, now time.Time) {
	if p.job.interrupted {
		return
	}
	p.job.interrupted = true
	p.job.cancel(ErrInterrupted)
	s.timers.set(p, now.Add(s.config.AbandonAfter))
}

// abandon gives up on the pod's work in flight, so that the pod can get other work.
func (s *scheduler) abandon(p *worker, then *change) {
	j := p.job
	then.abandoned = append(then.abandoned, j.Work)
	s.leave(p, then.now)
	s.follow(p.uid, s.set.Abandon(j.Work), then)
}

// finish records the end of a job.
func (s *scheduler) finish(j *job, end ended, then *change) {
	p := j.pod
	if p.job != j {
		s.late(j, end.outcome(), then)
		return
	}
	s.leave(p, then.now)
	e := s.set.done(p.state, j.Work, end.outcome())
	s.followFor(p, p.uid, e, then)
	s.resync(j, e, end, then)
	s.spare = j
}

// resync has an idle pod worked on again in a while: to retry what failed, or to inspect
// the pod. A failure of work that was cancelled does not count as the pod's.
func (s *scheduler) resync(j *job, e Effects, end ended, then *change) {
	p := j.pod
	wait := waiter{s.config, j.UID, then.now}
	var in time.Duration
	anew := false // whether failures are counted from the next one on
	switch {
	case e.Retry:
		in = wait.retryIn(j.Type, end.err, p.failures+1, end.Next)
		if left := j.Deadline.Sub(then.now); j.Type == SyncTerminatingPod && left > 0 && left < in {
			in, anew = left, true // then the time is over, and stops are different ones
		}
		s.timers.set(p, then.now.Add(in))
	case p.phase == Syncing:
		s.timers.set(p, then.now.Add(wait.resyncIn(end.Next)))
	}
	switch {
	case end.err == nil:
		p.failures, p.err = 0, nil
	case !j.interrupted:
		p.failures, p.err = p.failures+1, end.err
		then.failed = &failure{work: j.Work, err: end.err, retryIn: in}
	}
	if anew {
		p.failures = 0
	}
}

// late records the return of abandoned work. Its outcome is dropped, but the work may have
// changed the pod after the work that followed had inspected it: the pod is inspected again.
func (s *scheduler) late(j *job, o Outcome, then *change) {
	if j.Type == SyncPod {
		pod := RuntimePod{UID: j.UID, Name: j.Pod.Name, Namespace: j.Pod.Namespace}
		s.follow(j.UID, s.set.KillRuntimePod(then.now, pod), then)
	}
	s.follow(j.UID, s.set.Done(j.Work, o), then)
	if p := s.pods[j.UID]; p != nil {
		p.syncedAt = then.now
	}
}
