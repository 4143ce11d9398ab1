package syncpod

import (
	"context"
	"time"

	"github.com/podsync/podsync/actions"
)

// refreshTimeout is how long a sync waits for the pod's volume update.
const refreshTimeout = 5 * time.Second

// refresh updates the running containers' volumes. A failure is reported and retried; the containers keep
// running with the previous contents.
func (w syncing) refresh(ctx context.Context) {
	if w.config.Parts.Refresh == nil || w.over || w.plan.Hold.Reason == actions.PodNotAdmitted || ctx.Err() != nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	next, err := w.config.Parts.Refresh.RefreshPod(bounded, w.pod)
	if err != nil {
		warnOfVolumes(ctx, &w.observedPod, err)
	}
	w.nextRefresh = next
}
