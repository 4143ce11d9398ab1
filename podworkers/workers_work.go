package podworkers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// worker is what Workers hold of one pod beside its state in the Set.
type worker struct {
	uid types.UID
	// state is the Set's, and only to be read.
	state *state
	// phase is the pod's, as it was last told of.
	phase  Phase
	queued place
	// failures counts those in a row.
	failures int
	// job is the work in flight, nil if the pod is idle.
	job *job
	// syncedAt is when the last work ended: a status read before it does not show
	// what that did.
	syncedAt time.Time
	timer    timerEntry
}

// job is work in flight, in a goroutine of its own.
type job struct {
	Work
	pod    *worker
	ctx    context.Context
	cancel context.CancelCauseFunc
	// started is when the job was handed out, since the age its status may have.
	started, since time.Time
	// interrupted: its pod is to stop, or to stop sooner.
	interrupted bool
}

// work takes the work of pods that are ready, and ends when there is none.
func (w *Workers) work() {
	defer w.running.Done()
	for j := w.first(); j != nil; {
		result, err := w.call(j)
		j = w.finish(j, result, err)
	}
}

// first returns the job a goroutine begins with, nil if others were quicker.
func (w *Workers) first() *job {
	then := followUp{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	w.hungry = false
	return w.next(&then)
}

// waiting reports whether there is work to be taken.
func (w *Workers) waiting() bool {
	return len(w.ready.stops) > 0 || len(w.ready.syncs) > 0 && w.mayMoreSync()
}

func (w *Workers) mayMoreSync() bool {
	return w.config.MaxConcurrent == 0 || w.syncing < w.config.MaxConcurrent
}

// next returns a job to be done now, nil if there is none.
func (w *Workers) next(then *followUp) *job {
	for w.stage == running && w.waiting() {
		if p := w.ready.next(); p != nil && p.job == nil {
			if j := w.start(p, then); j != nil {
				return j
			}
		}
	}
	return nil
}

// start begins the work of an idle pod, if it has any.
func (w *Workers) start(p *worker, then *followUp) *job {
	work, ok, e := w.set.next(then.now, p.state)
	if !ok {
		w.followUp(p, p.uid, e, then)
		return nil
	}
	if work.Type == SyncPod {
		w.syncing++
	}
	w.timers.clear(p)
	if p.job = w.spare; p.job == nil {
		p.job = new(job)
	}
	w.spare = nil
	ctx, cancel := context.WithCancelCause(w.base)
	*p.job = job{Work: work, pod: p, ctx: ctx, cancel: cancel, started: then.now, since: p.syncedAt}
	return p.job
}

// leave takes a pod's work out of flight.
func (w *Workers) leave(p *worker, now time.Time) {
	if p.job.Type == SyncPod {
		w.syncing--
	}
	p.job, p.syncedAt = nil, now
}

// interrupt cancels a pod's work in flight, which has a while to return.
func (w *Workers) interrupt(p *worker, now time.Time) {
	if p.job.interrupted {
		return
	}
	p.job.interrupted = true
	p.job.cancel(ErrInterrupted)
	w.timers.set(p, now.Add(w.config.AbandonAfter))
}

// abandon lets a pod go on without its work in flight.
func (w *Workers) abandon(p *worker, then *followUp) {
	j := p.job
	then.abandoned = append(then.abandoned, j.Work)
	w.leave(p, then.now)
	w.follow(p.uid, w.set.Abandon(j.Work), then)
}

func (w *Workers) call(j *job) (Result, error) {
	w.config.Observer.SyncStarted(j.Work)
	status, err := w.status(j)
	if err != nil {
		return Result{}, err
	}
	s := w.config.Syncer
	switch j.Type {
	case SyncTerminatingPod:
		return Result{}, s.SyncTerminatingPod(j.ctx, j.Work, status)
	case SyncTerminatingRuntimePod:
		return Result{}, s.SyncTerminatingRuntimePod(j.ctx, j.Work, status)
	case SyncTerminatedPod:
		return Result{}, s.SyncTerminatedPod(j.ctx, j.Work, status)
	}
	return s.SyncPod(j.ctx, j.Work, status)
}

// status returns what the pod looks like after its last work. Work that was
// interrupted while it waited for that is not begun.
func (w *Workers) status(j *job) (status *runtime.PodStatus, err error) {
	if w.config.Status != nil {
		if status, err = w.config.Status.Fresh(j.ctx, j.UID, j.since); err != nil {
			return nil, fmt.Errorf("status of pod %s: %w", j.UID, err)
		}
	}
	return status, context.Cause(j.ctx)
}

// finish takes the outcome of a job and returns the one to do next, of any pod,
// nil if there is none.
func (w *Workers) finish(j *job, r Result, err error) *job {
	then := followUp{now: time.Now()}
	w.config.Observer.SyncEnded(j.Work, then.now.Sub(j.started), err)
	cancelled := j.ctx.Err() != nil
	j.cancel(nil)
	w.mu.Lock()
	defer w.unlock(&then)
	if p := j.pod; p.job == j {
		w.leave(p, then.now)
		if !cancelled {
			then.failed = p.count(j, err)
		}
		e := w.set.done(p.state, j.Work, outcome(r, err))
		w.followUp(p, p.uid, e, &then)
		w.schedule(p, e, r, &then)
		w.spare = j
	} else {
		w.late(j, &then)
	}
	return w.next(&then)
}

// count keeps the number of failures in a row.
func (p *worker) count(j *job, err error) *failure {
	if err == nil {
		p.failures = 0
		return nil
	}
	p.failures++
	return &failure{work: j.Work, err: err}
}

func outcome(r Result, err error) Outcome {
	switch {
	case err != nil:
		return Failed
	case r.Terminal:
		return SucceededTerminal
	}
	return Succeeded
}

// schedule has an idle pod looked at again in a while: to do once more what
// failed, or to see whether all is still well.
func (w *Workers) schedule(p *worker, e Effects, r Result, then *followUp) {
	switch {
	case e.Work:
	case e.Retry && then.failed != nil:
		then.failed.retryIn = w.config.retryIn(then.failed.err, p.failures, r.Next, then.now)
		w.timers.set(p, then.now.Add(then.failed.retryIn))
	case !e.Retry && p.phase == Syncing:
		w.timers.set(p, then.now.Add(w.config.resyncIn(r.Next, then.now)))
	}
}

// late takes the return of work that was abandoned. Its outcome is dropped, but
// what it did came after others had looked.
func (w *Workers) late(j *job, then *followUp) {
	if p := w.pods[j.UID]; p != nil {
		p.syncedAt = then.now
	}
	if j.Type == SyncPod {
		pod := RuntimePod{UID: j.UID, Name: j.Pod.Name, Namespace: j.Pod.Namespace}
		w.follow(j.UID, w.set.Stray(then.now, pod), then)
	}
}
