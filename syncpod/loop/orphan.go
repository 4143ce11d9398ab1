package loop

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/pleg"
)

// stopOrphans stops what runs of pods that no source wants, once their source has
// said what it does want (kubernetes #105547).
func (l *Loop) stopOrphans(desired desiredPods, pods []pleg.Pod) {
	isDesired := desired.uids()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		if !p.Running || isDesired[p.UID] || l.workerPods[p.UID] != nil || desired.undecided(p.Source) || !l.isOrphan(p) {
			continue
		}
		l.config.Log.Info("orphan stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID, "source", p.Source)
		l.stopOrphan(p)
	}
}

// isOrphan reports whether what runs of a pod that nobody wants has to be stopped.
func (l *Loop) isOrphan(p pleg.Pod) bool {
	state := l.states.get(p.UID)
	return !state.cleanup.inProgress() && state.survived(p)
}

// stopStrays stops what runs of pods that have ended, desired or not: a start that
// timed out and happened later, for example (kubernetes #139833).
func (l *Loop) stopStrays(pods []pleg.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		if !p.Running || l.workerPods[p.UID] == nil || !l.workers.State(p.UID).Terminated || !l.survives(p) {
			continue
		}
		l.config.Log.Info("something of an ended pod stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
		if err := l.workers.KillRuntimePod(runtimePod(p)); err == nil {
			l.states.update(p.UID, func(s *podState) { s.stopping = true })
		}
	}
}

func (l *Loop) survives(p pleg.Pod) bool {
	state := l.states.get(p.UID)
	return state.survived(p)
}

// survived reports whether what runs of a pod was seen after the pod was stopped, so
// that it has to be stopped again.
func (s *podState) survived(p pleg.Pod) bool { return !s.stopping && p.ObservedAt.After(s.stoppedAt) }

// stopOrphan has what runs of a pod stopped. It must be called with mu held.
func (l *Loop) stopOrphan(p pleg.Pod) {
	pod := runtimePod(p)
	if err := l.workers.UpdatePod(podworkers.Update{Type: podworkers.Kill, RuntimePod: &pod}); err == nil {
		l.states.update(p.UID, func(s *podState) { s.stopping, s.cleanup = true, orphaned })
	}
}

// removeStoppedOrphan has what is left of a pod removed if it was an orphan and has
// stopped: a new pod with its UID waits for that. It must be called with mu held.
func (l *Loop) removeStoppedOrphan(ctx context.Context, uid types.UID) {
	if state := l.states.get(uid); state.cleanup == orphaned && !state.stopping {
		l.removeUnknown(ctx, uid)
	}
}

func runtimePod(p pleg.Pod) podworkers.RuntimePod {
	return podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
}
