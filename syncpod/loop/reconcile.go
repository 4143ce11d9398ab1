package loop

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/shutdown"
	"github.com/podsync/podsync/syncpod/status"
)

// reconciler passes the desired pods to the workers.
type reconciler struct {
	table       *podTable
	sources     *feeds
	watcher     *pleg.Watcher
	house       *housekeeper
	cpusets     syncpod.CPUSets     // nil if no container has CPUs of its own
	allocations syncpod.Allocations // nil if pods have what they request
	admission   Admission           // nil if all pods are admitted
	// changed is called for a pod whose definition has changed. It must return soon.
	changed func(types.UID)
	// shuttingDown: new pods are not started any more. It is guarded by the table's mu.
	shuttingDown bool
}

// run reconciles after each delivery of a source.
func (r *reconciler) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.table.reconcile:
		}
		r.reconcile(ctx)
	}
}

// reconcile compares the desired pods with those of the workers. Stops come first: of static pods
// with one name only one may run at a time, even if an earlier agent has left one of them running
// (kubernetes #126711). Pods that ran before the agent was started are adopted, so the runtime must
// be listed before new pods are added. The grace period of a pod that must stop starts before that.
func (r *reconciler) reconcile(ctx context.Context) {
	listed := r.table.listed.Load()
	if listed {
		r.sources.judge(r.watcher.Pods)
	}
	desired, pods := r.sources.takeDesired(), r.watcher.Pods()
	r.stopUndesired(desired)
	r.table.mu.Lock()
	r.house.stopOrphans(desired, pods)
	r.table.mu.Unlock()
	running := map[types.UID]bool{}
	for _, p := range pods {
		running[p.UID] = p.Running
	}
	for _, want := range r.withoutOtherVersions(r.update(desired), desired, pods) {
		if ctx.Err() != nil {
			return
		}
		_, exists := running[want.pod.UID]
		switch {
		case desired.doubted[want.source] && !exists: // two versions of it may not run at once
		case listed || want.pod.DeletionTimestamp != nil:
			r.add(ctx, want, running[want.pod.UID] || !listed)
		}
	}
	r.table.housekeeping.raise()
}

// stopUndesired stops the pods that no source wants any more, and the pods that their source has removed and added again:
// these start anew after they have stopped.
func (r *reconciler) stopUndesired(desired desiredPods) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for _, uid := range r.table.uids() {
		wp := r.table.pods[uid]
		last := desired.departed[uid]
		switch {
		case desired.has(uid) && (last.pod == nil || last.source != desired.sources[uid]):
			continue
		case wp.desired != nil && desired.doubted[wp.source]:
			continue
		case wp.desired == nil:
			if last.source == wp.source && last.pod != nil {
				r.table.shorten(wp, last.pod) // the source has added and removed the pod again in the meantime
			}
			continue
		}
		r.table.log(wp.pod).Info("pod removed", "source", wp.source)
		if last.source == wp.source && !wp.restartRequested && differs(wp.desired, last.pod) {
			wp.pod = r.table.withStatus(last.pod)
		}
		wp.desired, wp.pod, r.table.activePods.known = nil, podworkers.Deleted(wp.pod, time.Now()), false
		r.table.update(wp, podworkers.Update{Type: podworkers.Kill})
	}
}

// update passes on the changed pods, and returns the new ones ordered by their creation.
func (r *reconciler) update(desired desiredPods) (additions []desiredPod) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for _, want := range desired.pods {
		wp := r.table.pods[want.pod.UID]
		switch {
		case wp == nil && r.table.workers.State(want.pod.UID).Known: // the forgotten orphan will trigger a reconciliation
		case wp == nil:
			additions = append(additions, want)
		case wp.desired == nil:
			r.table.log(want.pod).Info("pod comes again", "source", want.source)
			wp.desired, wp.source, wp.restartRequested = want.pod, want.source, true
			if !r.table.workers.State(want.pod.UID).Phase.IsOrphan() { // otherwise the new pod is added when the old one is forgotten
				r.table.update(wp, podworkers.Update{Type: podworkers.Create})
			}
			r.table.shorten(wp, wp.desired)
		case wp.restartRequested: // it must wait, even if it has changed
			if differs(wp.desired, want.pod) {
				wp.desired, wp.source = want.pod, want.source
				r.table.shorten(wp, wp.desired)
			}
		case differs(wp.desired, want.pod):
			r.table.log(want.pod).Info("pod changed", "source", want.source)
			wp.desired, wp.source = want.pod, want.source
			wp.pod, r.table.activePods.known = r.table.withStatus(want.pod), false
			r.table.update(wp, podworkers.Update{Type: podworkers.Changed})
			r.changed(want.pod.UID)
		}
	}
	slices.SortStableFunc(additions, func(a, b desiredPod) int {
		return a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time)
	})
	return additions
}

// add adds a new pod. An earlier agent may have left running containers in it. A rejected pod is
// added as finished: it is cleaned up once, whatever its source does (kubernetes #118472).
func (r *reconciler) add(ctx context.Context, want desiredPod, running bool) {
	uid := want.pod.UID
	pod := r.table.withStatus(want.pod)
	r.table.log(pod).Info("pod added", "source", want.source)
	if !running && !runtime.IsTerminal(pod.Status.Phase) && pod.DeletionTimestamp == nil {
		if refusal := r.decideAdmission(ctx, pod); refusal != nil {
			pod = r.refused(pod, refusal)
		}
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if r.table.workers.State(uid).Known {
		return // the forgotten orphan will trigger a reconciliation
	}
	if r.shuttingDown && !running && !runtime.IsTerminal(pod.Status.Phase) && pod.DeletionTimestamp == nil {
		r.table.reconcile.raise() // it was admitted before the shutdown began, so the shutdown does not include it
		return
	}
	wp := &workerPod{source: want.source, desired: want.pod, pod: pod, endedBefore: runtime.IsTerminal(pod.Status.Phase)}
	r.table.pods[uid] = wp
	r.table.admit(pod)
	u := podworkers.Update{Type: podworkers.Create, Status: r.table.lastStatus(uid)}
	if running {
		u.RuntimePod = &podworkers.RuntimePod{UID: uid, Name: pod.Name, Namespace: pod.Namespace}
	}
	r.table.update(wp, u)
}

// decideAdmission returns why a new pod may not run, nil if it may. A static pod that is added while the node
// shuts down is left to the next agent, and is recorded for it. CPUs come before the Admission, as in a kubelet, because that may
// stop other pods to make room.
func (r *reconciler) decideAdmission(ctx context.Context, pod *v1.Pod) *syncpod.Rejection {
	if refusal := r.shutdownRejection(); refusal != nil {
		r.table.states.update(pod.UID, func(s *podState) { s.drained = runtime.IsStatic(pod) })
		return refusal
	}
	if r.cpusets != nil {
		allocated := pod // what it has, if an earlier agent has admitted it, and not what a resize asks for
		if r.allocations != nil {
			allocated = r.allocations.Allocated(pod)
		}
		if refusal := r.cpusets.Admit(allocated); refusal != nil {
			return refusal
		}
	}
	if r.admission == nil {
		return nil
	}
	refusal := r.admission.Admit(pod, r.table.admitted())
	if refusal != nil && r.cpusets != nil {
		if err := r.cpusets.RemovePod(ctx, pod.UID); err != nil { // it is called again once the refusal is reported
			r.table.log(pod).Error(err, "the CPUs of a refused pod are not free yet")
		}
	}
	return refusal
}

// refused returns the pod as failed, and reports that.
func (r *reconciler) refused(pod *v1.Pod, why *syncpod.Rejection) *v1.Pod {
	r.table.log(pod).Info("pod refused", "reason", why.Reason)
	failed := *pod
	failed.Status = status.Rejected(*pod.Status.DeepCopy(), why.Reason, why.Message)
	r.table.states.update(pod.UID, func(s *podState) { s.status, s.undelivered = &failed.Status, true })
	r.table.podEvent(pod, why.Reason, why.Message)
	return &failed
}

// withoutOtherVersions returns the new pods except some static ones: if a pod with the same name runs that may
// be an orphan, its source has not delivered yet which of the two it wants. The new pod then waits until the
// source has delivered, or until the other pod has ended.
func (r *reconciler) withoutOtherVersions(additions []desiredPod, desired desiredPods, pods []pleg.Pod) []desiredPod {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	undecided := map[desiredName]bool{}
	for _, p := range pods {
		if !desired.has(p.UID) && r.table.pods[p.UID] == nil && desired.undecided(p.Source) && r.house.hasProcesses(p) {
			undecided[desiredName{p.Source, p.Namespace, p.Name}] = true
		}
	}
	kept := slices.DeleteFunc(additions, func(want desiredPod) bool {
		return runtime.IsStatic(want.pod) && undecided[desiredName{want.source, want.pod.Namespace, want.pod.Name}] &&
			!slices.ContainsFunc(pods, func(p pleg.Pod) bool { return p.Running && p.UID == want.pod.UID })
	})
	r.table.versionsWait = len(kept) < len(additions)
	return kept
}

// desiredName identifies a pod of a source by name.
type desiredName struct{ source, namespace, name string }

// shutdownRejection returns why no new pod is started, nil if they are.
func (r *reconciler) shutdownRejection() *syncpod.Rejection {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if !r.shuttingDown {
		return nil
	}
	return &syncpod.Rejection{Reason: shutdown.RejectedReason, Message: shutdown.RejectedMessage}
}
