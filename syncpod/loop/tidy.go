package loop

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// changed is told by the watcher that the runtime has something else of a pod.
func (l *Loop) changed(uid types.UID, _ *runtime.PodStatus) { l.lookAgain(uid) }

// keepTidy tidies up when there is a reason to, and again while something remains
// to be done. New pods and changes do not wait for it (kubernetes #98607).
func (l *Loop) keepTidy(ctx context.Context) {
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.tidy:
		case <-retry.C:
		}
		if !l.listed.Load() {
			continue
		}
		began := time.Now()
		if again := l.tidyUp(ctx); !again.IsZero() {
			retry.Reset(time.Until(again))
		}
		l.rest(ctx, tidyCost*time.Since(began))
	}
}

// tidyCost is how many times what it took to tidy up is left alone after it: each time all
// pods are gone through, and while many end there is always a reason to.
const tidyCost = 9

func (l *Loop) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(min(d, l.config.HousekeepingInterval))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tidyUp stops what should not run and forgets what has ended. It returns when to
// try again what could not be done, zero if there is no such thing.
func (l *Loop) tidyUp(ctx context.Context) (again time.Time) {
	desired, pods := l.desired(), l.watcher.Pods()
	l.stopOrphans(desired, pods)
	l.stopStrays(pods)
	l.forgetFinished(ctx)
	l.removeDead(ctx, desired, pods)
	return l.deleteGone(ctx, desired, pods)
}

// forgetFinished has the workers forget the pods that nobody wants and that have ended,
// and those that have to make room for a new pod with their UID.
func (l *Loop) forgetFinished(ctx context.Context) {
	for _, uid := range l.dropForgotten() {
		l.forgetPod(ctx, uid)
		l.children.Go(func() { l.removeForgotten(ctx, uid) })
	}
}

// dropForgotten drops the pods that the workers forget, or have forgotten by themselves,
// and returns them: a pod that was added while what an earlier agent had left of it was
// stopped is to begin when they are done with that, which they do not tell. Until each is
// removed from the runtime, no new pod with its UID comes.
func (l *Loop) dropForgotten() []types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, _ := l.workers.SyncKnownPods(l.desiredUIDs())
	there := make(map[types.UID]bool, len(known))
	for _, k := range known {
		there[k.UID] = true
	}
	var uids []types.UID
	for _, uid := range l.uids() {
		if there[uid] || !l.workerPods[uid].accepted {
			continue
		}
		delete(l.workerPods, uid)
		l.beside.known = false
		l.setCleanup(uid, removing)
		uids = append(uids, uid)
	}
	return uids
}

// desiredUIDs returns the pods of the workers that sources want. It must be called with
// mu held.
func (l *Loop) desiredUIDs() []types.UID {
	var uids []types.UID
	for _, uid := range l.uids() {
		if l.workerPods[uid].desired != nil {
			uids = append(uids, uid)
		}
	}
	return uids
}

// forgetPod drops all that is known of a pod before a new one with its UID can come. What
// could not be deleted, be it by the Store or by the Syncer, is left to deleteRecords.
func (l *Loop) forgetPod(ctx context.Context, uid types.UID) {
	l.config.Probes.Forget(uid)
	err := l.config.Store.Delete(ctx, uid)
	if err != nil {
		l.config.Log.Error(err, "status not forgotten", "podUID", uid)
	}
	l.states.update(uid, func(s *podState) { *s = s.forgotten() })
}
