package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Known tells the workers which pods the sources want, all of them; see
// [Set.Known]. Pods that no source wants are stopped. The effects of what it
// returns have been seen to and are left out.
func (w *Workers) Known(desired []types.UID) (known, forgotten []Known) {
	then := followUp{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	known, forgotten = w.set.Known(desired)
	for _, pods := range [][]Known{forgotten, known} {
		for i := range pods {
			w.follow(pods[i].UID, pods[i].Effects, &then)
			pods[i].Effects = Effects{}
		}
	}
	return known, forgotten
}

// Stray tells the workers that the runtime runs something of a pod that should
// have stopped; see [Set.Stray]. It is stopped. The error is ErrStopped, or
// tells that the pod has no UID.
func (w *Workers) Stray(pod RuntimePod) error {
	then := followUp{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	if _, err := w.acceptable(Update{Type: Kill, RuntimePod: &pod}); err != nil {
		return err
	}
	w.follow(pod.UID, w.set.Stray(then.now, pod), &then)
	return nil
}

// ask puts a question to the Set.
func ask[T any](w *Workers, question func(*Set, types.UID) T, uid types.UID) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return question(&w.set, uid)
}

// Terminated is [Set.Terminated].
func (w *Workers) Terminated(uid types.UID) bool { return ask(w, (*Set).Terminated, uid) }

// MayHaveRunningContainers is [Set.MayHaveRunningContainers].
func (w *Workers) MayHaveRunningContainers(uid types.UID) bool {
	return ask(w, (*Set).MayHaveRunningContainers, uid)
}

// ShouldBeFinished is [Set.ShouldBeFinished].
func (w *Workers) ShouldBeFinished(uid types.UID) bool { return ask(w, (*Set).ShouldBeFinished, uid) }

// TerminationRequested is [Set.TerminationRequested].
func (w *Workers) TerminationRequested(uid types.UID) bool {
	return ask(w, (*Set).TerminationRequested, uid)
}

// ContainersShouldBeTerminating is [Set.ContainersShouldBeTerminating].
func (w *Workers) ContainersShouldBeTerminating(uid types.UID) bool {
	return ask(w, (*Set).ContainersShouldBeTerminating, uid)
}

// RuntimeShouldBeRemoved is [Set.RuntimeShouldBeRemoved].
func (w *Workers) RuntimeShouldBeRemoved(uid types.UID) bool {
	return ask(w, (*Set).RuntimeShouldBeRemoved, uid)
}

// ContentShouldBeRemoved is [Set.ContentShouldBeRemoved].
func (w *Workers) ContentShouldBeRemoved(uid types.UID) bool {
	return ask(w, (*Set).ContentShouldBeRemoved, uid)
}
