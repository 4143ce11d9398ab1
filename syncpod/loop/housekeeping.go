package loop

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
)

// keepHouse does the housekeeping when there is a reason to. New pods and changes do not wait
// for it (kubernetes #98607).
func (l *Loop) keepHouse(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.housekeeping:
		}
		if !l.listed.Load() {
			continue
		}
		began := time.Now()
		l.doHousekeeping()
		l.rest(ctx, housekeepingCost*time.Since(began))
	}
}

// housekeepingCost is how many times its own duration the housekeeping rests: each time all pods are
// compared, and while many end there is always a reason to.
const housekeepingCost = 9

func (l *Loop) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(min(d, l.config.HousekeepingInterval))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// doHousekeeping compares what the sources want with what the node has, and tells the workers. They
// stop, remove and forget.
func (l *Loop) doHousekeeping() {
	desired, pods := l.desired(), l.watcher.Pods()
	isDesired := desired.uids()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopOrphans(desired, isDesired, pods)
	l.stopOrphanedContainers(pods)
	l.workers.SyncKnownPods(l.desiredUIDs())
	l.removeOrphans(desired, isDesired, pods)
}

// desiredUIDs returns the pods of the workers that sources want. It must be called with
// mu held.
func (l *Loop) desiredUIDs() []types.UID {
	return slices.DeleteFunc(l.uids(), func(uid types.UID) bool { return l.workerPods[uid].desired == nil })
}

// isOrphan reports whether no source wants a pod of the runtime that the workers do not know. It
// waits until the pod's source has said what it wants (kubernetes #105547, #107730). It must be called
// with mu held.
func (l *Loop) isOrphan(desired desiredPods, isDesired map[types.UID]bool, p pleg.Pod) bool {
	return !isDesired[p.UID] && l.workerPods[p.UID] == nil && !desired.undecided(p.Source) && !l.workers.State(p.UID).Known
}

// stopOrphans has the workers stop orphans that run. It must be called with mu held.
func (l *Loop) stopOrphans(desired desiredPods, isDesired map[types.UID]bool, pods []pleg.Pod) {
	for _, p := range pods {
		if p.Running && l.isOrphan(desired, isDesired, p) {
			l.config.Log.Info("orphaned pod is stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID, "source", p.Source)
			l.stop(p)
		}
	}
}

// stopOrphanedContainers has the workers stop what runs of pods that have ended, desired or not: a
// start that timed out and happened later, for example (kubernetes #139833). A container that was
// created late may run yet, and is removed. It must be called with mu held.
func (l *Loop) stopOrphanedContainers(pods []pleg.Pod) {
	for _, p := range pods {
		state := l.states.get(p.UID)
		if l.workerPods[p.UID] == nil || !p.ObservedAt.After(state.stoppedAt) || !l.workers.State(p.UID).Terminated || !p.Running && !l.hasCreated(p, state.stoppedAt) {
			continue
		}
		l.config.Log.Info("orphaned containers of an ended pod are stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
		l.stop(p)
	}
}

func (l *Loop) stop(p pleg.Pod) {
	if err := l.workers.KillRuntimePod(runtimePod(p)); err != nil {
		l.config.Log.V(1).Info("no pod is stopped any more", "podUID", p.UID, "reason", err.Error())
	}
}

// hasCreated reports whether a container of a pod was seen, after the pod was stopped, to be created
// and not started.
func (l *Loop) hasCreated(p pleg.Pod, stoppedAt time.Time) bool {
	status := l.lastStatus(p.UID)
	return status != nil && status.ObservedAt.After(stoppedAt) && slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.State == runtime.ContainerCreated })
}

// removeOrphans has the workers remove what earlier agents have left of pods: what the runtime has of
// those that do not run, which stays there without a Client, and, once all sources have spoken, what is
// recorded of those that the runtime does not have. It must be called with mu held.
func (l *Loop) removeOrphans(desired desiredPods, isDesired map[types.UID]bool, pods []pleg.Pod) {
	inRuntime := make(map[types.UID]bool, len(pods))
	for _, p := range pods {
		inRuntime[p.UID] = p.Running || l.config.Client != nil
		if !p.Running && inRuntime[p.UID] && l.isOrphan(desired, isDesired, p) {
			l.workers.RemoveOrphan(runtimePod(p))
		}
	}
	if !desired.complete {
		return // it will be called again
	}
	for _, uid := range l.states.uids() {
		if !isDesired[uid] && l.workerPods[uid] == nil && !inRuntime[uid] {
			l.workers.RemoveOrphan(podworkers.RuntimePod{UID: uid})
		}
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

// desiredName is that of a pod of a source.
type desiredName struct{ source, namespace, name string }

// hasProcesses reports whether a container of a pod runs, or may run, or come alive.
func (l *Loop) hasProcesses(p pleg.Pod) bool {
	status := l.lastStatus(p.UID)
	return p.Running && (status == nil || slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		return c.State != runtime.ContainerExited
	}))
}

func runtimePod(p pleg.Pod) podworkers.RuntimePod {
	return podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
}
