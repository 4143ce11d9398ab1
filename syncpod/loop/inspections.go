package loop

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
)

// inspections reads statuses for a Syncer. It inspects pods through the watcher, so that the cache
// has the newest status and no pod is inspected twice.
type inspections struct {
	Reader
	loop *Loop
}

// PodStatus inspects a pod. While the watcher considers the runtime unavailable, it still calls the
// runtime: the pod may wait only for this call.
func (l inspections) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	since := time.Now()
	status, err := l.loop.watcher.GetNewerThan(ctx, uid, since)
	if _, away := errors.AsType[*pleg.UnavailableError](err); away {
		l.loop.states.update(uid, func(s *podState) { s.lookedAt = time.Time{} }) // the cache does not have this status
		return l.Reader.PodStatus(ctx, uid, prev)
	}
	if err == nil {
		l.loop.states.update(uid, func(s *podState) { s.lookedAt = since })
	}
	return status, err
}

// workStatuses provides pod statuses to the workers before a sync.
type workStatuses struct{ loop *Loop }

var _ podworkers.StatusSource = workStatuses{}

// GetNewerThan returns the status of a pod from a read after since. If the pod has stopped, the last inspection
// during the stop is sufficient, too.
func (l workStatuses) GetNewerThan(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	if state := l.loop.states.get(uid); state.lookCovers(since) && state.lookedAt.Before(since) {
		since = state.lookedAt
	}
	return l.loop.fresh(ctx, uid, since)
}

// fresh returns the status of a pod from a read since the given time. While the runtime is
// unavailable it waits: only the watcher checks whether the runtime is back, however many pods
// there are, and then all of them continue at once.
func (l *Loop) fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	for {
		status, err := l.watcher.GetNewerThan(ctx, uid, since)
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
