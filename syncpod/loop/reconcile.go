package loop

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// follow tells the workers what the sources say, each time they say something.
func (l *Loop) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.news:
		}
		l.reconcile(ctx)
	}
}

// reconcile compares what the sources want with what the workers know. What has to
// stop comes first: of static pods with one name only one runs at a time, also if an
// earlier agent has left one of them behind (kubernetes #126711). What ran before the
// agent was started is adopted, so that has to be known before a pod is to run. The time of
// one that is to stop runs before that, too.
func (l *Loop) reconcile(ctx context.Context) {
	listed := l.listed.Load()
	desired, pods := l.takeDesired(), l.watcher.Pods()
	l.stopUndesired(desired)
	l.mu.Lock()
	l.stopOrphans(desired, desired.uids(), pods)
	l.mu.Unlock()
	running := map[types.UID]bool{}
	for _, p := range pods {
		running[p.UID] = p.Running
	}
	for _, w := range l.withoutOtherVersions(l.update(desired), desired, pods) {
		if ctx.Err() != nil {
			return
		}
		if listed || w.pod.DeletionTimestamp != nil {
			l.add(w, running[w.pod.UID] || !listed)
		}
	}
	l.housekeeping.raise()
}

// stopUndesired stops the pods that no source wants any more.
func (l *Loop) stopUndesired(desired desiredPods) {
	isDesired := desired.uids()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range l.uids() {
		wp := l.workerPods[uid]
		last := desired.departed[uid]
		switch {
		case isDesired[uid]:
			continue
		case wp.desired == nil:
			if last.source == wp.source && last.pod != nil {
				l.shorten(wp, last.pod) // it came and went again meanwhile
			}
			continue
		}
		l.log(wp.pod).Info("pod removed", "source", wp.source)
		if last.source == wp.source && !wp.restartRequested && differs(wp.desired, last.pod) {
			wp.pod = withStatus(last.pod, l.states.get(uid).status)
		}
		wp.desired, wp.pod, l.beside.known = nil, deleted(wp.pod), false
		l.tell(wp, podworkers.Update{Type: podworkers.Kill})
	}
}

// deleted returns the pod with the mark of one that is deleted: so its last status is
// that of one that does not come back, though it is static (kubernetes #116484).
func deleted(pod *v1.Pod) *v1.Pod {
	if pod.DeletionTimestamp != nil || !runtime.IsStatic(pod) {
		return pod
	}
	copied := *pod // shares all but the mark
	copied.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return &copied
}

// update tells of the pods that have changed, and returns those that are new, in
// the order in which they were created.
func (l *Loop) update(desired desiredPods) (additions []desiredPod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range desired.pods {
		wp := l.workerPods[w.pod.UID]
		switch {
		case wp == nil && l.workers.State(w.pod.UID).Known: // there will be news when the orphan is forgotten
		case wp == nil:
			additions = append(additions, w)
		case wp.desired == nil:
			l.log(w.pod).Info("pod comes again", "source", w.source)
			wp.desired, wp.source, wp.restartRequested = w.pod, w.source, true
			if l.workers.State(w.pod.UID).Phase <= podworkers.Finished { // or else it is added when the old one is forgotten
				l.tell(wp, podworkers.Update{Type: podworkers.Create})
			}
			l.shorten(wp, wp.desired)
		case wp.restartRequested: // it has to wait, whatever it says now
			if differs(wp.desired, w.pod) {
				wp.desired, wp.source = w.pod, w.source
				l.shorten(wp, wp.desired)
			}
		case differs(wp.desired, w.pod):
			l.log(w.pod).Info("pod changed", "source", w.source)
			wp.desired, wp.source = w.pod, w.source
			wp.pod, l.beside.known = withStatus(w.pod, l.states.get(w.pod.UID).status), false
			l.tell(wp, podworkers.Update{Type: podworkers.Changed})
		}
	}
	slices.SortStableFunc(additions, func(a, b desiredPod) int {
		return a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time)
	})
	return additions
}

// shorten gives a pod that is stopping no more time than asked was given, which was deleted
// meanwhile: its source may have lost it for a moment, so that the two are the same.
func (l *Loop) shorten(wp *workerPod, asked *v1.Pod) {
	if grace := asked.DeletionGracePeriodSeconds; grace != nil {
		l.tell(wp, podworkers.Update{Type: podworkers.Kill, Stop: &podworkers.StopRequest{GracePeriodSeconds: grace}})
	}
}

// add takes a new pod on, of which the runtime may run something that an earlier agent has
// started. One that may not run is taken on as over: it is cleaned up
// after once, whatever becomes of it at its source (kubernetes #118472).
func (l *Loop) add(w desiredPod, running bool) {
	uid := w.pod.UID
	pod := withStatus(w.pod, l.states.get(uid).status)
	l.log(pod).Info("pod added", "source", w.source)
	if !running && !isOver(pod.Status.Phase) && pod.DeletionTimestamp == nil {
		if refusal := l.decideAdmission(pod); refusal != nil {
			pod = l.refused(pod, refusal)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers.State(uid).Known {
		return // there will be news when the orphan is forgotten
	}
	wp := &workerPod{source: w.source, desired: w.pod, pod: pod, endedBefore: isOver(pod.Status.Phase)}
	l.workerPods[uid] = wp
	l.admit(pod)
	u := podworkers.Update{Type: podworkers.Create, Status: l.lastStatus(uid)}
	if running {
		u.RuntimePod = &podworkers.RuntimePod{UID: uid, Name: pod.Name, Namespace: pod.Namespace}
	}
	l.tell(wp, u)
}

// decideAdmission returns why a new pod may not run, nil if it may. A static pod that comes
// while the node is shut down is for the next agent, which is noted.
func (l *Loop) decideAdmission(pod *v1.Pod) *syncpod.Rejection {
	if refusal := l.shutdownRejection(); refusal != nil {
		l.states.update(pod.UID, func(s *podState) { s.drained = runtime.IsStatic(pod) })
		return refusal
	}
	if l.config.Admission == nil {
		return nil
	}
	return l.config.Admission.Admit(pod, l.admitted())
}

// refused returns the pod as one that has failed, and sees to it that this is told.
func (l *Loop) refused(pod *v1.Pod, r *syncpod.Rejection) *v1.Pod {
	l.log(pod).Info("pod refused", "reason", r.Reason)
	failed := *pod
	failed.Status = apistatus.Rejected(*pod.Status.DeepCopy(), r.Reason, r.Message)
	l.states.update(pod.UID, func(s *podState) { s.status, s.undelivered = &failed.Status, true })
	l.event(pod, r.Reason, r.Message)
	return &failed
}

// event records a warning about a pod.
func (l *Loop) event(pod *v1.Pod, reason, message string) {
	if l.config.Sync.Events == nil {
		return
	}
	l.config.Sync.Events.Eventf(reference(pod), v1.EventTypeWarning, reason, "%s", message)
}

// lastStatus returns what the runtime last reported of a pod, nil if that is not
// known.
func (l *Loop) lastStatus(uid types.UID) *runtime.PodStatus {
	status, known, err := l.config.Watch.Cache.Newer(uid, time.Time{})
	if !known || err != nil {
		return nil
	}
	return status
}

// reference is how events name a pod, those of a Syncer, too.
func reference(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}
