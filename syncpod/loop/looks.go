package loop

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
)

// looks is how a Syncer looks at pods: with the watcher, so that what the work on a pod has seen
// last is what everybody knows, and nobody asks again.
type looks struct {
	syncpod.StatusReader
	loop *Loop
}

// PodStatus looks at a pod. While the watcher has the runtime for away, it is asked all the same:
// a look may be the last thing that a pod waits for.
func (l looks) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	since := time.Now()
	status, err := l.loop.watcher.Fresh(ctx, uid, since)
	if _, away := errors.AsType[*pleg.UnavailableError](err); away {
		l.loop.states.update(uid, func(s *podState) { s.lookedAt = time.Time{} }) // the watcher does not know of it
		return l.StatusReader.PodStatus(ctx, uid, prev)
	}
	if err == nil {
		l.loop.states.update(uid, func(s *podState) { s.lookedAt = since })
	}
	return status, err
}

// workStatuses are what workers get to know of pods before they work on them.
type workStatuses struct{ loop *Loop }

var _ podworkers.StatusSource = workStatuses{}

// Fresh returns the status of a pod that was read since then. Once the pod has stopped, the last
// look of the work that has stopped it does, too.
func (l workStatuses) Fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	if state := l.loop.states.get(uid); state.lookCovers(since) && state.lookedAt.Before(since) {
		since = state.lookedAt
	}
	return l.loop.fresh(ctx, uid, since)
}

// fresh returns the status of a pod that was read since then. While the runtime is away it waits
// for it: only the watcher asks whether it is back, however many pods there are, and all of them
// go on the moment it is.
func (l *Loop) fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	for {
		status, err := l.watcher.Fresh(ctx, uid, since)
		if _, away := errors.AsType[*pleg.UnavailableError](err); !away {
			return status, err
		}
		select {
		case <-l.awaitRuntime():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
