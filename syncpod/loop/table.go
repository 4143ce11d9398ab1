package loop

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
)

// podTable holds the pods that the workers have. All changes to the sources reach the workers through it.
type podTable struct {
	notices
	workers *podworkers.Workers
	states  *podStates
	cache   *runtime.Cache
	// reconcile is raised when the sources must be compared with the workers, housekeeping when there may be pods to stop or to
	// remove.
	reconcile, housekeeping flag
	// listed means that the runtime has been listed once.
	listed atomic.Bool

	// mu is held while the workers are updated. It is locked before any lock of theirs or of the
	// states, and the watcher is not called under it.
	mu         sync.Mutex
	pods       map[types.UID]*workerPod
	activePods admittedPods
	// versionsWait: a static pod is not started, because the runtime still runs another pod of its
	// name that may be an orphan.
	versionsWait bool
}

// find returns a pod as the workers have it, nil if they do not have it.
func (t *podTable) find(uid types.UID) *v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wp := t.pods[uid]; wp != nil {
		return wp.pod
	}
	return nil
}

// uids returns the workers' pods, sorted. It must be called with mu held.
func (t *podTable) uids() []types.UID { return slices.Sorted(maps.Keys(t.pods)) }

// desiredUIDs returns the pods of the workers that sources want. It must be called with
// mu held.
func (t *podTable) desiredUIDs() []types.UID {
	return slices.DeleteFunc(t.uids(), func(uid types.UID) bool { return t.pods[uid].desired == nil })
}

// lastStatus returns a pod's last status in the runtime, nil if it is unknown.
func (t *podTable) lastStatus(uid types.UID) *runtime.PodStatus {
	status, known, err := t.cache.Newer(uid, time.Time{})
	if !known || err != nil {
		return nil
	}
	return status
}

// update passes a pod update to the workers. It requires mu to be held.
func (t *podTable) update(wp *workerPod, u podworkers.Update) {
	u.Pod = wp.pod
	if wp.endedBefore {
		u.Pod = sourceless(wp.pod)
	}
	if err := t.workers.UpdatePod(u); err != nil {
		t.log(u.Pod).V(1).Info("an update was rejected", "reason", err.Error())
	}
}

// shorten applies the grace period of asked to a stopping pod that was deleted in the meantime. Both are the same
// pod: its source may have removed it for a moment.
func (t *podTable) shorten(wp *workerPod, asked *v1.Pod) {
	if grace := asked.DeletionGracePeriodSeconds; grace != nil {
		t.update(wp, podworkers.Update{Type: podworkers.Kill, Stop: &podworkers.StopRequest{GracePeriodSeconds: grace}})
	}
}

// ofSource returns the pod's version in its source.
func (t *podTable) ofSource(pod *v1.Pod) *v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wp := t.pods[pod.UID]; wp != nil && wp.endedBefore {
		return wp.pod
	}
	return pod
}

// requestSync requests a sync of a pod because something of it has changed. Pods that no source wants, or that have
// ended, are left to the housekeeping.
func (t *podTable) requestSync(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wp := t.pods[uid]
	if wp == nil && t.versionsWait {
		t.reconcile.raise()
	}
	if wp == nil || t.states.get(uid).phase.HasStopped() {
		t.housekeeping.raise()
		return
	}
	t.update(wp, podworkers.Update{Type: podworkers.Sync})
}

// sourceDelivered requests a reconciliation after a source has delivered.
func (t *podTable) sourceDelivered(configsChanged bool) {
	t.reconcile.raise()
	if configsChanged {
		t.syncConfigUsers()
	}
}

// syncConfigUsers requests a sync of all pods, of any source, that may mount a ConfigMap or a Secret.
func (t *podTable) syncConfigUsers() {
	t.mu.Lock()
	uids := slices.DeleteFunc(t.uids(), func(uid types.UID) bool { return !mountsConfigs(t.pods[uid].pod) })
	t.mu.Unlock()
	for _, uid := range uids {
		t.requestSync(uid)
	}
}

func mountsConfigs(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if vol := &pod.Spec.Volumes[i]; vol.ConfigMap != nil || vol.Secret != nil || vol.Projected != nil {
			return true
		}
	}
	return false
}

// drop forgets a pod that has been removed. recorded means that its records are kept, because a source that has not
// delivered yet may want the pod.
func (t *podTable) drop(w podworkers.Work, recorded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, w.UID)
	t.activePods.known = false
	switch {
	case !recorded:
		t.states.delete(w.UID)
	case w.Pod != nil: // with this status, a new pod with the UID would count as finished
		t.states.update(w.UID, func(s *podState) { *s = podState{} })
	}
}

// flag wakes one goroutine. If it is raised several times before the goroutine wakes, it wakes the goroutine
// once.
type flag chan struct{}

func (f flag) raise() {
	select {
	case f <- struct{}{}:
	default:
	}
}
