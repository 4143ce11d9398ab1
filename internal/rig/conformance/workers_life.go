package main

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
)

// life is the history of a pod since its first update. It ends when
// the Set forgets the pod; the next update with its UID begins another life.
type life struct {
	// static means that the pod is in the queue of static pods.
	static bool
	// synced: the pod had a SyncPod. stopping: it had a call that stops it. skipped:
	// the calls that end it were not made, in the kubelet's way.
	synced, stopping, skipped bool
	// beside means that the pod was started while containers of another pod with its name could run.
	beside bool
	// inRuntime: a report of the runtime named the pod before it was stopped. stopped: a call
	// that stops it has succeeded.
	inRuntime, stopped bool
	// grace is the last grace period in seconds, zero if there was none. lengthened
	// means that a longer one followed.
	grace      int64
	lengthened bool
	// pod is its last definition.
	pod *v1.Pod
	// bound is a grace period in seconds that podsync honours and the kubelet ignores; zero if there is
	// none.
	bound int64
}

// life returns the current life of the pod of an update.
func (r *workersRun) life(uid types.UID, first podworkers.Update) *life {
	if l, known := r.lives[uid]; known {
		return l
	}
	l := &life{static: runtime.IsStatic(first.Pod)}
	if l.static {
		r.line = append(r.line, uid)
	}
	r.lives[uid] = l
	return l
}

// take records an update that the Set has accepted, and whether the pod is stopping after it. In the kubelet, a
// deletion grace period of zero does not limit a request in
// the same update.
func (l *life) take(u podworkers.Update, stopping bool) {
	if u.Pod != nil {
		l.pod = u.Pod
	}
	l.inRuntime = l.inRuntime || u.Pod == nil && stopping
	if l.pod == nil || !stopping || u.Stop == nil || u.Stop.GracePeriodSeconds == nil {
		return
	}
	if given := l.pod.DeletionGracePeriodSeconds; given != nil && *given == 0 {
		l.keepTo(0)
	}
}

// worked notes a call and its result.
func (l *life) worked(w podworkers.Work, result podworkers.Outcome) {
	switch {
	case w.Type != podworkers.SyncPod:
		l.stopping = true
		l.stopped = l.stopped || w.Type != podworkers.SyncTerminatedPod && result != podworkers.Failed
		if w.Type == podworkers.SyncTerminatingPod {
			l.notified(w.GracePeriodSeconds)
		}
		return
	case result == podworkers.SucceededTerminal:
		l.endedItself(w.Pod)
	}
	l.synced = true
}

// notified records a pod's grace period.
func (l *life) notified(grace *int64) {
	if grace == nil {
		l.lengthened = l.lengthened || l.grace != 0
		return
	}
	l.lengthened = l.lengthened || l.grace != 0 && *grace > l.grace || l.bound != 0 && *grace > l.bound
	l.grace = *grace
}

// endedItself records that a pod whose SyncPod has reported it as finished keeps its own grace period, which the kubelet
// ignores.
func (l *life) endedItself(pod *v1.Pod) {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		l.keepTo(*pod.DeletionGracePeriodSeconds)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		l.keepTo(*pod.Spec.TerminationGracePeriodSeconds)
	}
}

// keepTo bounds the time that the pod has to stop. One second is the least.
func (l *life) keepTo(seconds int64) {
	seconds = max(seconds, 1)
	if l.bound == 0 || seconds < l.bound {
		l.bound = seconds
	}
}

// setApart gives a static pod a unique name if this run keeps the queue in the kubelet's way, in place of
// the Set.
func (r *workersRun) setApart(u *podworkers.Update) {
	if r.hasWay(newPlace) && u.Pod != nil {
		u.Pod.Name = string(u.Pod.UID)
	}
}

// hasTurn reports whether the kubelet would sync a pod: a static pod
// that has not started waits while another pod with its name runs, and until it is the
// first in the queue of the pods that have not started.
func (r *workersRun) hasTurn(uid types.UID) bool {
	l, known := r.lives[uid]
	if !known || !l.static || l.synced || r.set.State(uid).TerminationRequested {
		return true
	}
	for other, o := range r.lives {
		if o.static && o.synced && !r.set.State(other).ShouldBeFinished {
			return false
		}
	}
	i := slices.IndexFunc(r.line, r.waits)
	first := r.line[i]
	if first != r.firstToCome() {
		r.deviations[newPlace], r.deviations[promptSuccessor] = true, true
	}
	if first == uid {
		i++
	}
	r.line = r.line[i:]
	return first == uid
}

// waits reports whether a pod in line is still to start.
func (r *workersRun) waits(uid types.UID) bool {
	l, known := r.lives[uid]
	return known && !l.synced && !r.set.State(uid).TerminationRequested
}

// firstToCome returns the pod whose present life began before those of all others
// that wait: it took the last of its places then.
func (r *workersRun) firstToCome() types.UID {
	for i, uid := range r.line {
		if r.waits(uid) && !slices.Contains(r.line[i+1:], uid) {
			return uid
		}
	}
	return ""
}
