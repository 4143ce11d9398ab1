package loop

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
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

// withoutOtherVersions returns the new pods but for static ones of whose name another pod
// runs that may be an orphan or not: their source has not said yet which of the two it
// wants. They wait until it has, or until the other one has ended.
func (l *Loop) withoutOtherVersions(additions []desiredPod, desired desiredPods, pods []pleg.Pod) []desiredPod {
	l.mu.Lock()
	defer l.mu.Unlock()
	isDesired := desired.uids()
	undecided := map[desiredName]bool{}
	for _, p := range pods {
		if !isDesired[p.UID] && l.workerPods[p.UID] == nil && desired.undecided(p.Source) && l.hasProcesses(p) {
			undecided[desiredName{p.Source, p.Namespace, p.Name}] = true
		}
	}
	kept := slices.DeleteFunc(additions, func(w desiredPod) bool {
		return runtime.IsStatic(w.pod) && undecided[desiredName{w.source, w.pod.Namespace, w.pod.Name}] &&
			!slices.ContainsFunc(pods, func(p pleg.Pod) bool { return p.Running && p.UID == w.pod.UID })
	})
	l.versionsWait = len(kept) < len(additions)
	return kept
}

// hasProcesses reports whether a container of a pod runs, or may run, or come alive.
func (l *Loop) hasProcesses(p pleg.Pod) bool {
	status := l.lastStatus(p.UID)
	return p.Running && (status == nil || slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.State != runtime.ContainerExited
	}))
}

// desiredName is that of a pod of a source.
type desiredName struct{ source, namespace, name string }

// isOrphan reports whether what runs of a pod that nobody wants has to be stopped.
func (l *Loop) isOrphan(p pleg.Pod) bool {
	state := l.states.get(p.UID)
	return !state.cleanup.inProgress() && state.survived(p)
}

// stopStrays stops what runs of pods that have ended, desired or not: a start that
// timed out and happened later, for example (kubernetes #139833). A container that was created
// late does not run, but may, and is removed.
func (l *Loop) stopStrays(pods []pleg.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		if l.workerPods[p.UID] == nil || !l.workers.State(p.UID).Terminated || !l.survives(p) || !p.Running && !l.hasCreated(p) {
			continue
		}
		l.config.Log.Info("something of an ended pod stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
		if err := l.workers.KillRuntimePod(runtimePod(p)); err == nil {
			l.states.update(p.UID, func(s *podState) { s.stopping = true })
		}
	}
}

// hasCreated reports whether a container of a pod was seen, after the pod was stopped, to be created
// and not started.
func (l *Loop) hasCreated(p pleg.Pod) bool {
	status := l.lastStatus(p.UID)
	return status != nil && status.ObservedAt.After(l.states.get(p.UID).stoppedAt) && slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.State == runtime.ContainerCreated })
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
