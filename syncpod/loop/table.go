package loop

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/podref"
	apistatus "github.com/podsync/podsync/syncpod/status"
	"github.com/podsync/podsync/syncpod/volume"
)

// podTable holds the pods that the workers have. All changes to the sources reach the workers through it.
type podTable struct {
	notices
	workers *podworkers.Workers
	states  *podStates
	cache   *runtime.Cache
	// reconcile is raised when the sources must be compared with the workers, housekeeping when there may be pods to stop or to
	// remove.
	reconcile, housekeeping flag
	// listed means that the runtime has been listed once.
	listed atomic.Bool

	// mu is held while the workers are updated. It is locked before any lock of theirs or of the
	// states, and the watcher is not called under it.
	mu         sync.Mutex
	pods       map[types.UID]*workerPod
	activePods admittedPods
	// versionsWait: a static pod is not started, because the runtime still runs another pod of its
	// name that may be an orphan.
	versionsWait bool
}

// find returns a pod as the workers have it, nil if they do not have it.
func (t *podTable) find(uid types.UID) *v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wp := t.pods[uid]; wp != nil {
		return wp.pod
	}
	return nil
}

// uids returns the workers' pods, sorted. It must be called with mu held.
func (t *podTable) uids() []types.UID { return slices.Sorted(maps.Keys(t.pods)) }

// desiredUIDs returns the pods of the workers that sources want. It must be called with
// mu held.
func (t *podTable) desiredUIDs() []types.UID {
	return slices.DeleteFunc(t.uids(), func(uid types.UID) bool { return t.pods[uid].desired == nil })
}

// lastStatus returns a pod's last status in the runtime, nil if it is unknown.
func (t *podTable) lastStatus(uid types.UID) *runtime.PodStatus {
	status, known, err := t.cache.Newer(uid, time.Time{})
	if !known || err != nil {
		return nil
	}
	return status
}

// withStatus returns the pod of a source with the status that was reported last.
func (t *podTable) withStatus(pod *v1.Pod) *v1.Pod {
	return apistatus.WithReported(pod, t.states.get(pod.UID).status)
}

// ended reports whether nothing of a pod runs any more, or will run.
func (t *podTable) ended(uid types.UID) bool {
	state := t.states.get(uid)
	return state.over() || t.workers.State(uid).Phase.HasStopped()
}

// update passes a pod update to the workers. It requires mu to be held.
func (t *podTable) update(wp *workerPod, u podworkers.Update) {
	u.Pod = wp.pod
	if wp.endedBefore {
		u.Pod = sourceless(wp.pod)
	}
	if err := t.workers.UpdatePod(u); err != nil {
		t.log(u.Pod).V(1).Info("an update was rejected", "reason", err.Error())
	}
}

// shorten applies the grace period of asked to a stopping pod that was deleted in the meantime. Both are the same
// pod: its source may have removed it for a moment.
func (t *podTable) shorten(wp *workerPod, asked *v1.Pod) {
	if grace := asked.DeletionGracePeriodSeconds; grace != nil {
		t.update(wp, podworkers.Update{Type: podworkers.Kill, Stop: &podworkers.StopRequest{GracePeriodSeconds: grace}})
	}
}

// ofSource returns the pod's version in its source.
func (t *podTable) ofSource(pod *v1.Pod) *v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wp := t.pods[pod.UID]; wp != nil && wp.endedBefore {
		return wp.pod
	}
	return pod
}

// requestSync requests a sync of a pod because something of it has changed. Pods that no source wants, or that have
// ended, are left to the housekeeping.
func (t *podTable) requestSync(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wp := t.pods[uid]
	if wp == nil && t.versionsWait {
		t.reconcile.raise()
	}
	if wp == nil || t.workers.State(uid).Phase.HasStopped() {
		t.housekeeping.raise()
		return
	}
	t.update(wp, podworkers.Update{Type: podworkers.Sync})
}

// sourceDelivered requests a reconciliation after a source has delivered.
func (t *podTable) sourceDelivered(configsChanged bool) {
	t.reconcile.raise()
	if configsChanged {
		t.syncConfigUsers()
	}
}

// syncConfigUsers requests a sync of all pods, of any source, that may mount a ConfigMap or a Secret.
func (t *podTable) syncConfigUsers() {
	t.mu.Lock()
	uids := slices.DeleteFunc(t.uids(), func(uid types.UID) bool { return !mountsConfigs(t.pods[uid].pod) })
	t.mu.Unlock()
	for _, uid := range uids {
		t.requestSync(uid)
	}
}

func mountsConfigs(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if volume.KindOf(&pod.Spec.Volumes[i]).OfObjects() {
			return true
		}
	}
	return false
}

// drop forgets a pod that has been removed. recorded means that its records are kept, because a source that has not
// delivered yet may want the pod.
func (t *podTable) drop(w podworkers.Work, recorded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, w.UID)
	t.activePods.known = false
	switch {
	case !recorded:
		t.states.delete(w.UID)
	case w.Pod != nil: // with this status, a new pod with the UID would count as finished
		t.states.update(w.UID, func(s *podState) { *s = podState{} })
	}
}

// flag wakes one goroutine. If it is raised several times before the goroutine wakes, it wakes the goroutine
// once.
type flag chan struct{}

func (f flag) raise() {
	select {
	case f <- struct{}{}:
	default:
	}
}

// A workerPod is a pod that the workers know, from its first update until they forget it.
// podTable.mu guards it and is held during updates, so that the last update is always the current
// state.
type workerPod struct {
	source string
	// desired is the pod in its source, nil if the source no longer wants it.
	desired *v1.Pod
	// pod is the version that the workers have: desired with the last reported status.
	pod *v1.Pod
	// restartRequested means that desired is a new pod with the UID of pod, which is stopping. The new pod
	// waits until the workers have forgotten pod (kubernetes #104648).
	restartRequested bool
	// endedBefore means that the pod had finished, or was rejected, before its first update. The workers finish a
	// static pod that was never synced without a call, as a kubelet does. So they receive this pod as a pod without a
	// source: an earlier agent's remains must be cleaned up (kubernetes #105527), and its end reported.
	endedBefore bool
}

// differs reports whether a pod has changed in a way that matters for its sync. Its status mostly
// repeats the reported one, so only the parts that other components write matter.
func differs(before, after *v1.Pod) bool {
	if before == after {
		return false
	}
	return runtime.IsTerminal(before.Status.Phase) != runtime.IsTerminal(after.Status.Phase) ||
		!before.DeletionTimestamp.Equal(after.DeletionTimestamp) ||
		!reflect.DeepEqual(before.DeletionGracePeriodSeconds, after.DeletionGracePeriodSeconds) ||
		!reflect.DeepEqual(before.Labels, after.Labels) ||
		!reflect.DeepEqual(before.Annotations, after.Annotations) ||
		!reflect.DeepEqual(before.Spec, after.Spec) ||
		!reflect.DeepEqual(before.Status.ResourceClaimStatuses, after.Status.ResourceClaimStatuses) ||
		!reflect.DeepEqual(before.Status.ExtendedResourceClaimStatus, after.Status.ExtendedResourceClaimStatus) ||
		!reflect.DeepEqual(conditionsOfOthers(before.Status.Conditions), conditionsOfOthers(after.Status.Conditions))
}

// conditionsOfOthers returns the statuses of the conditions that components other than the node set, such as readiness
// gates.
func conditionsOfOthers(conditions []v1.PodCondition) map[v1.PodConditionType]v1.ConditionStatus {
	states := map[v1.PodConditionType]v1.ConditionStatus{}
	for _, c := range conditions {
		if !apistatus.Decides(c.Type) {
			states[c.Type] = c.Status
		}
	}
	return states
}

// sourceless returns the pod as a pod without a source.
func sourceless(pod *v1.Pod) *v1.Pod {
	copied := *pod // shares all but the annotations
	copied.Annotations = maps.Clone(pod.Annotations)
	delete(copied.Annotations, runtime.AnnotationConfigSource)
	return &copied
}

// admittedPods are the active pods, which run or will run, sorted by UID; an Admission receives
// them for each new pod. podTable.mu guards the list. It is rebuilt only after a change other than
// a pod's addition, because many pods may come at once.
type admittedPods struct {
	pods []*v1.Pod
	// known means that pods is current, unless the work on one of them has ended since then.
	known bool
	// ends is the value of podStates.ends when pods was built.
	ends uint64
}

// admitted returns the pods that run or should run, ordered by their UIDs. The list belongs to the
// caller.
func (t *podTable) admitted() []*v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ends := t.states.endsNow(); !t.activePods.known || t.activePods.ends != ends {
		t.activePods = admittedPods{known: true, ends: ends}
		for _, uid := range t.uids() {
			if !t.ended(uid) {
				t.activePods.pods = append(t.activePods.pods, t.pods[uid].pod)
			}
		}
	}
	return slices.Clone(t.activePods.pods)
}

// admit adds a pod that was admitted. It must be called with mu held.
func (t *podTable) admit(pod *v1.Pod) {
	if !t.activePods.known || t.ended(pod.UID) {
		return
	}
	at, _ := slices.BinarySearchFunc(t.activePods.pods, pod, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	t.activePods.pods = slices.Insert(t.activePods.pods, at, pod)
}

// notices are the log lines and the events about pods.
type notices struct {
	logger logr.Logger
	events syncpod.EventRecorder // nil if the embedder has none
}

// log returns the logger of a pod.
func (n notices) log(pod *v1.Pod) logr.Logger { return podref.Log(n.logger, pod) }

// podEvent records a warning about a pod.
func (n notices) podEvent(pod *v1.Pod, reason, message string) {
	if n.events != nil {
		n.events.Eventf(podref.Pod(pod), v1.EventTypeWarning, reason, "%s", message)
	}
}
