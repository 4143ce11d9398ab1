package podworkers

import (
	"context"
	"fmt"
	"time"

	"github.com/podsync/podsync/runtime"
)

// job is work in flight, in a goroutine of its own. That goroutine reads it without the
// lock: no field but interrupted is written to before the work has returned.
type job struct {
	Work
	pod    *worker
	ctx    context.Context
	cancel context.CancelCauseFunc
	// started is when the work was handed out. A status that is read before since is too old.
	started, since time.Time
	// interrupted: the work was cancelled, as its pod or the workers are to stop. Workers.mu guards it.
	interrupted bool
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

// do does the work. The lock is not held.
func (j *job) do(c *Config) (end ended) {
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

// status returns the pod's status after its last work. Work that was interrupted
// during the wait for it is not begun.
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
