package loop

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/pleg"
)

// stopOrphans stops what runs of pods that no source wants, once their source has
// said what it does want (kubernetes #105547).
func (l *Loop) stopOrphans(wants wishes, pods []pleg.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		if !p.Running || wants.has(p.UID) || l.lives[p.UID] != nil || l.leaving[p.UID] || wants.mayMiss(p.Source) || !l.survives(p) {
			continue
		}
		l.config.Log.Info("orphan stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID, "source", p.Source)
		l.stopRuntimePod(p)
	}
}

// stopStrays stops what runs of pods that have ended, wanted or not: a start that
// timed out and happened later, for example (kubernetes #139833).
func (l *Loop) stopStrays(pods []pleg.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		if !p.Running || l.lives[p.UID] == nil || !l.workers.Terminated(p.UID) || !l.survives(p) {
			continue
		}
		l.config.Log.Info("something of an ended pod stopped", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
		if err := l.workers.Stray(runtimePod(p)); err == nil {
			l.book.write(p.UID, func(k *page) { k.stopping = true })
		}
	}
}

// survives reports whether what runs of a pod was seen after the pod was stopped, so
// that it has to be stopped again.
func (l *Loop) survives(p pleg.Pod) bool {
	known := l.book.read(p.UID)
	return !known.stopping && p.ObservedAt.After(known.stopped)
}

func (l *Loop) stopRuntimePod(p pleg.Pod) {
	pod := runtimePod(p)
	if err := l.workers.UpdatePod(podworkers.Update{Type: podworkers.Kill, RuntimePod: &pod}); err == nil {
		l.book.write(p.UID, func(k *page) { k.stopping, k.orphan = true, true })
	}
}

// awaitOrphan reports whether a pod has to wait because it was an orphan that is being
// stopped, and has what is left of it removed when it has stopped. It must be called with
// mu held.
func (l *Loop) awaitOrphan(ctx context.Context, uid types.UID) bool {
	known := l.book.read(uid)
	if known.orphan && !known.stopping {
		l.leave(ctx, uid)
	}
	return known.orphan
}

func runtimePod(p pleg.Pod) podworkers.RuntimePod {
	return podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
}
