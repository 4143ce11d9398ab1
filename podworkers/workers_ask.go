package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SyncKnownPods reports all pods that the sources want; see [Set.SyncKnownPods]. The workers stop and
// remove the other pods. The returned pods have no Effects: the workers have handled them.
func (w *Workers) SyncKnownPods(desired []types.UID) (known, orphaned []KnownPod) {
	then := change{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	known, orphaned = w.scheduler.set.SyncKnownPods(desired)
	for _, pods := range [][]KnownPod{orphaned, known} {
		for i := range pods {
			e := pods[i].Effects
			if p := w.scheduler.pods[pods[i].UID]; p != nil && p.phase != Syncing && p.err != nil {
				e.Work = false // what stops it, or cleans up after it, has failed and is tried again in time
			}
			w.scheduler.follow(pods[i].UID, e, &then)
			pods[i].Effects = Effects{}
		}
	}
	return known, orphaned
}

// KillRuntimePod reports that the runtime runs containers of a pod that should have stopped, and
// stops them; see [Set.KillRuntimePod]. The error is ErrStopped, or that the pod has no UID.
func (w *Workers) KillRuntimePod(pod RuntimePod) error {
	then := change{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	if _, err := w.scheduler.acceptable(Update{Type: Kill, RuntimePod: &pod}); err != nil {
		return err
	}
	w.scheduler.follow(pod.UID, w.scheduler.set.KillRuntimePod(then.now, pod), &then)
	return nil
}

// RemoveOrphan removes a pod that the workers do not know; see [Set.RemoveOrphan].
func (w *Workers) RemoveOrphan(pod RuntimePod) {
	then := change{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	w.scheduler.follow(pod.UID, w.scheduler.set.RemoveOrphan(pod), &then)
}

// State returns the state of a pod; see [Set.State].
func (w *Workers) State(uid types.UID) PodState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scheduler.set.State(uid)
}
