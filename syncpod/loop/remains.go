package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/pleg"
)

const (
	// parallelRemovals is how many pods' remains are removed at a time.
	parallelRemovals = 4
	// removalTimeout bounds one try, lest others wait for it.
	removalTimeout = time.Minute
)

// removeDead removes what the runtime has of dead pods that nobody wants, once their
// source has said what it does want (kubernetes #107730). Without a Client it stays.
func (l *Loop) removeDead(ctx context.Context, desired desiredPods, pods []pleg.Pod) {
	if l.config.Client == nil {
		return
	}
	isDesired := desired.uids()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		if p.Running || isDesired[p.UID] || l.workerPods[p.UID] != nil || desired.undecided(p.Source) || !l.mayRemove(p.UID) {
			continue
		}
		l.removeUnknown(ctx, p.UID)
	}
}

// mayRemove reports whether nobody stops a pod or cleans up after it already.
func (l *Loop) mayRemove(uid types.UID) bool {
	state := l.states.get(uid)
	return !state.cleanup.inProgress() && !state.stopping
}

// removeUnknown has what the runtime has of a pod removed that the workers did not have,
// and if a new one with its UID waits for that what an earlier agent has recorded, too: by
// either of them the new one would have had its run. It must be called with mu held.
func (l *Loop) removeUnknown(ctx context.Context, uid types.UID) {
	l.setCleanup(uid, removing)
	l.children.Go(func() {
		switch {
		case !l.removeFromRuntime(ctx, uid, time.Now()):
		case l.wants(uid):
			l.endCleanup(uid, deleting)
			l.deleteRecords(ctx, uid, noCleanup)
		default:
			l.removed(uid)
		}
	})
}

// removeForgotten removes what the runtime has of a pod that the workers have forgotten, and then
// lets a new pod with its UID come. That would be taken to have had its run otherwise.
func (l *Loop) removeForgotten(ctx context.Context, uid types.UID) {
	since := time.Now()
	state := l.states.get(uid)
	if _, away := l.watcher.Available(); away == nil && state.lookCovers(state.stoppedAt) {
		since = state.lookedAt
	}
	if l.removeFromRuntime(ctx, uid, since) {
		l.removed(uid)
	}
}

// removed lets a new pod with the UID of one that is removed come, if it is wanted by now. All
// pods are gone through for that, so otherwise they are not.
func (l *Loop) removed(uid types.UID) {
	l.endCleanup(uid, noCleanup)
	if l.wants(uid) {
		l.news.raise()
	}
	l.tidy.raise()
}

// removeFromRuntime removes what the runtime has of a pod, by a look since then at first, and
// reports whether it has before ctx has ended.
func (l *Loop) removeFromRuntime(ctx context.Context, uid types.UID, since time.Time) bool {
	for ; ; since = time.Now() {
		err := l.tryToRemove(ctx, uid, since)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		l.config.Log.Error(err, "remains of a pod not removed", "podUID", uid)
		select {
		case <-time.After(l.config.HousekeepingInterval):
		case <-ctx.Done():
			return false
		}
	}
}

// tryToRemove removes once what a look since then has found. It fails unless a last look has found
// nothing.
func (l *Loop) tryToRemove(ctx context.Context, uid types.UID, since time.Time) error {
	if l.config.Client == nil {
		return nil // Config.Client says that this is so
	}
	select {
	case l.removals <- struct{}{}:
		defer func() { <-l.removals }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	status, err := l.fresh(ctx, uid, since)
	if err != nil || status.Empty() {
		return err
	}
	l.watcher.Hold(uid) // the last look shows what events tell of the removal
	defer l.watcher.Release(uid, false)
	if err := l.removeSandboxes(ctx, status); err != nil {
		return err
	}
	// What a new pod is to find is that there is nothing.
	if status, err = l.fresh(ctx, uid, time.Now()); err == nil && !status.Empty() {
		err = fmt.Errorf("pod %s: %d sandboxes and %d containers are left", uid, len(status.Sandboxes), len(status.Containers))
	}
	return err
}

// removeSandboxes stops sandboxes before it removes them, even such as look stopped: their
// network may still be there (containerd #5768), but for those that this agent has stopped.
func (l *Loop) removeSandboxes(ctx context.Context, status *runtime.PodStatus) error {
	stopped := l.states.get(status.UID).sandboxesStopped
	for _, sb := range status.Sandboxes {
		if !slices.Contains(stopped, sb.ID) {
			if err := l.config.Sync.Deps.Sandboxes.Stop(ctx, sb.ID); err != nil {
				return fmt.Errorf("pod %s: %w", status.UID, err)
			}
		}
		_, err := l.config.Client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sb.ID})
		if err := cri.IgnoreNotFound(err); err != nil {
			return fmt.Errorf("sandbox %s of pod %s: %w", sb.ID, status.UID, err)
		}
	}
	return nil
}
