package podworkers

import (
	"context"
	"fmt"
	"time"

	"github.com/podsync/podsync/runtime"
)

// job is work in flight. The goroutine of the job reads it without the
// lock: until the work has returned, no field except interrupted is written.
type job struct {
	Work
	pod    *worker
	ctx    context.Context
	cancel context.CancelCauseFunc
	// started is the time when the work was handed out. A status that was read before since is too old.
	started, since time.Time
	// interrupted means that the work was cancelled, because its pod or the workers must stop. Workers.mu guards it.
	interrupted bool
}

// ended is a job's result.
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

// do does the work, without the lock.
func (j *job) do(c *Config) (end ended) {
	c.Tracker.WorkStarted(j.Work)
	c.Observer.SyncStarted(j.Work)
	status, err := j.status(c.Status)
	if err != nil {
		return ended{err: err}
	}
	if c.Trace == nil {
		return callSyncer(j.ctx, c.Syncer, j.Work, status)
	}
	ctx, traced := c.Trace(j.ctx, j.Work)
	end = callSyncer(ctx, c.Syncer, j.Work, status)
	traced(end.err)
	return end
}

// status returns a status of the pod that is newer than its last work. If the job was interrupted during the
// wait, status returns the cause, and the work does not start.
func (j *job) status(source StatusSource) (status *runtime.PodStatus, err error) {
	if source != nil {
		if status, err = source.GetNewerThan(j.ctx, j.UID, j.since); err != nil {
			return nil, fmt.Errorf("status of pod %s: %w", j.UID, err)
		}
	}
	return status, context.Cause(j.ctx)
}

// callSyncer calls the method of the Syncer for the type of the work.
func callSyncer(ctx context.Context, s Syncer, work Work, status *runtime.PodStatus) (end ended) {
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
