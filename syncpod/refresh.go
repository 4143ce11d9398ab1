package syncpod

import (
	"context"
	"time"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/lastknown"
)

// refreshRetry is the pause after an update that a start has tried in vain.
const refreshRetry = 30 * time.Second

// refresh updates the running containers' volumes. A failure is reported and retried; the containers keep
// running with the previous contents. It takes no longer than a start waits for news, because a container may exit
// meanwhile, and is not tried right after an update that has failed.
func (w syncing) refresh(ctx context.Context) {
	if w.config.Parts.Refresh == nil || w.over || w.plan.Hold.Reason == actions.PodNotAdmitted || ctx.Err() != nil {
		return
	}
	if w.sandbox.outdated {
		w.nextRefresh = time.Now().Add(refreshRetry)
		return
	}
	bounded, cancel := context.WithTimeout(ctx, lastknown.Patience)
	defer cancel()
	next, err := w.config.Parts.Refresh.RefreshPod(bounded, w.pod)
	if err != nil {
		warnOfVolumes(ctx, &w.observedPod, err)
	}
	w.nextRefresh = next
}
