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
	// failures counts those in a row, err is the last of them.
	failures int
	err      error
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
	// interrupted: it was cancelled, as its pod is to stop, or to stop sooner, or the
	// workers are.
	interrupted bool
}

// work takes the work of pods that are ready, and ends when there is none.
func (w *Workers) work() {
	defer w.running.Done()
	for j := w.first(); j != nil; {
		j = w.finish(j, w.call(j))
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
		if p := w.ready.next(); p != nil {
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
	then.moved = p.moveOn(then.moved)
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
	if work.Type == SyncTerminatingRuntimePod || work.Type == RemovePod && p.syncedAt.IsZero() {
		// Another component has seen the pod, perhaps later than the last status was read. By
		// that status a container would be killed with its sandbox, or left.
		p.job.since = then.now
	}
	return p.job
}

// leave takes a pod's work out of flight.
func (w *Workers) leave(p *worker, now time.Time) {
	if p.job.Type == SyncPod {
		w.syncing--
	}
	if p.job.Type != SyncTerminatedPod { // which does nothing in the runtime
		p.syncedAt = now
	}
	p.job = nil
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

// ended is how work ended.
type ended struct {
	Result
	err error
}

func (e ended) outcome() Outcome {
	switch {
	case e.err != nil:
		return Failed
	case e.Terminal:
		return SucceededTerminal
	}
	return Succeeded
}

// call does the work.
func (w *Workers) call(j *job) (end ended) {
	w.config.Observer.SyncStarted(j.Work)
	status, err := w.status(j)
	if err != nil {
		return ended{err: err}
	}
	if w.config.Trace == nil {
		return w.sync(j.ctx, j.Work, status)
	}
	ctx, traced := w.config.Trace(j.ctx, j.Work)
	end = w.sync(ctx, j.Work, status)
	traced(end.err)
	return end
}

// sync calls the Syncer.
func (w *Workers) sync(ctx context.Context, work Work, status *runtime.PodStatus) (end ended) {
	s := w.config.Syncer
	switch work.Type {
	case SyncTerminatingPod:
		end.err = s.SyncTerminatingPod(ctx, work, status)
	case SyncTerminatingRuntimePod:
		end.err = s.SyncTerminatingRuntimePod(ctx, work, status)
	case SyncTerminatedPod:
		end.err = s.SyncTerminatedPod(ctx, work, status)
	case RemovePod:
		end.err = s.RemovePod(ctx, work, status)
	default:
		end.Result, end.err = s.SyncPod(ctx, work, status)
	}
	return end
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

// finish takes the end of a job and returns the one to do next, of any pod, nil
// if there is none.
func (w *Workers) finish(j *job, end ended) *job {
	then := followUp{now: time.Now()}
	w.config.Observer.SyncEnded(j.Work, then.now.Sub(j.started), end.err)
	j.cancel(nil)
	w.mu.Lock()
	defer w.unlock(&then)
	if p := j.pod; p.job == j {
		w.leave(p, then.now)
		e := w.set.done(p.state, j.Work, end.outcome())
		w.followUp(p, p.uid, e, &then)
		w.schedule(j, e, end, &then)
		w.spare = j
	} else {
		w.late(j, end.outcome(), &then)
	}
	return w.next(&then)
}

// schedule has an idle pod looked at again in a while: to do once more what
// failed, or to see whether all is still well. What failed because it was
// cancelled is no failure of the pod.
func (w *Workers) schedule(j *job, e Effects, end ended, then *followUp) {
	p := j.pod
	wait := waiter{&w.config, j.UID, then.now}
	var in time.Duration
	anew := false // whether failures are counted from the next one on
	switch {
	case e.Retry:
		in = wait.retryIn(j.Type, end.err, p.failures+1, end.Next)
		if left := j.Deadline.Sub(then.now); j.Type == SyncTerminatingPod && left > 0 && left < in {
			in, anew = left, true // then the time is over, and stops are different ones
		}
		w.timers.set(p, then.now.Add(in))
	case p.phase == Syncing:
		w.timers.set(p, then.now.Add(wait.resyncIn(end.Next)))
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

// late takes the return of work that was abandoned. Its outcome is dropped, but
// what it did came after others had looked: they look again.
func (w *Workers) late(j *job, o Outcome, then *followUp) {
	if j.Type == SyncPod {
		pod := RuntimePod{UID: j.UID, Name: j.Pod.Name, Namespace: j.Pod.Namespace}
		w.follow(j.UID, w.set.KillRuntimePod(then.now, pod), then)
	}
	w.follow(j.UID, w.set.Done(j.Work, o), then)
	if p := w.pods[j.UID]; p != nil {
		p.syncedAt = then.now
	}
}
