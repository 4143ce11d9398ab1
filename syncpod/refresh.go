package syncpod

import (
	"context"
	"time"

	"github.com/podsync/podsync/actions"
)

// refreshTimeout bounds what the work on a pod waits for its volumes.
const refreshTimeout = 5 * time.Second

// refresh updates the volumes of the running containers. A failure is reported and retried, and the
// containers keep running with what they have.
func (w syncing) refresh(ctx context.Context) {
	if w.config.deps.Refresh == nil || w.over || w.plan.Hold.Reason == actions.PodNotAdmitted || ctx.Err() != nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	next, err := w.config.deps.Refresh.RefreshPod(bounded, w.pod)
	if err != nil {
		warnOfVolumes(ctx, &w.observedPod, err)
	}
	w.nextRefresh = next
}
