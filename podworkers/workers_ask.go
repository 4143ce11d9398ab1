package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SyncKnownPods reports all pods that the sources want; see [Set.SyncKnownPods]. The workers stop and
// remove the other pods. The returned pods have no Effects: the workers have handled them.
func (w *Workers) SyncKnownPods(desired []types.UID) (known, orphaned []KnownPod) {
	changes := changes{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&changes)
	known, orphaned = w.scheduler.set.SyncKnownPods(desired)
	for _, pods := range [][]KnownPod{orphaned, known} {
		for i := range pods {
			e := pods[i].Effects
			if p := w.scheduler.pods[pods[i].UID]; p != nil && p.phase != Syncing && p.err != nil {
				e.Work = false // its stop or cleanup has failed; the retry is scheduled
			}
			w.scheduler.apply(pods[i].UID, e, &changes)
			pods[i].Effects = Effects{}
		}
	}
	return known, orphaned
}

// KillRuntimePod reports that the runtime runs containers in a pod that should have stopped, and
// stops them; see [Set.KillRuntimePod]. It returns ErrStopped, or an error if the pod has no UID.
func (w *Workers) KillRuntimePod(pod RuntimePod) error {
	changes := changes{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&changes)
	if _, err := w.scheduler.acceptable(Update{Type: Kill, RuntimePod: &pod}); err != nil {
		return err
	}
	w.scheduler.apply(pod.UID, w.scheduler.set.KillRuntimePod(changes.now, pod), &changes)
	return nil
}

// RemoveOrphan removes a pod that the workers do not know; see [Set.RemoveOrphan].
func (w *Workers) RemoveOrphan(pod RuntimePod) {
	changes := changes{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&changes)
	w.scheduler.apply(pod.UID, w.scheduler.set.RemoveOrphan(pod), &changes)
}

// State returns a pod's state; see [Set.State].
func (w *Workers) State(uid types.UID) PodState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scheduler.set.State(uid)
}
