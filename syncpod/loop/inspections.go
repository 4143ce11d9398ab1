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
func (i inspections) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	since := time.Now()
	status, err := i.loop.watcher.GetNewerThan(ctx, uid, since)
	if _, unavailable := errors.AsType[*pleg.UnavailableError](err); unavailable {
		i.loop.states.update(uid, func(s *podState) { s.inspectedAt = time.Time{} }) // the cache does not have this status
		return i.Reader.PodStatus(ctx, uid, prev)
	}
	if err == nil {
		i.loop.states.update(uid, func(s *podState) { s.inspectedAt = since })
	}
	return status, err
}

// workStatuses provides pod statuses to the workers before a sync.
type workStatuses struct{ loop *Loop }

var _ podworkers.StatusSource = workStatuses{}

// GetNewerThan returns the status of a pod from a read after since. If the pod has stopped, the last inspection
// during the stop is sufficient, too.
func (s workStatuses) GetNewerThan(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	if state := s.loop.states.get(uid); state.inspectionCovers(since) && state.inspectedAt.Before(since) {
		since = state.inspectedAt
	}
	return s.loop.fresh(ctx, uid, since)
}

// fresh returns the status of a pod from a read since the given time. While the runtime is
// unavailable it waits: only the watcher checks whether the runtime is back, however many pods
// there are, and then all of them continue at once.
func (l *Loop) fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	for {
		status, err := l.watcher.GetNewerThan(ctx, uid, since)
		if _, unavailable := errors.AsType[*pleg.UnavailableError](err); !unavailable {
			return status, err
		}
		select {
		case <-l.awaitRuntime():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
