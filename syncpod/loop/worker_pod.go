package loop

import (
	"maps"
	"reflect"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

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

// withStatus returns the pod with its last reported status, nil if there is none. The source's own
// information takes precedence where it is newer: a terminal phase, and the parts that others
// write.
func withStatus(pod *v1.Pod, reported *v1.PodStatus) *v1.Pod {
	if reported == nil || runtime.IsTerminal(pod.Status.Phase) {
		return pod
	}
	copied := *pod // shares all but the status, and is read-only, too
	copied.Status = *reported.DeepCopy()
	copied.Status.Conditions = withConditions(copied.Status.Conditions, pod.Status.Conditions)
	return &copied
}

// withConditions returns conditions with those of others, which replace conditions of their type.
func withConditions(conditions, others []v1.PodCondition) []v1.PodCondition {
	at := make(map[v1.PodConditionType]int, len(conditions)) // a pod may have ten thousand
	for i := range conditions {
		at[conditions[i].Type] = i
	}
	for _, c := range others {
		i, known := at[c.Type]
		switch {
		case apistatus.Decides(c.Type):
		case known:
			conditions[i] = c
		default:
			at[c.Type] = len(conditions)
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// sourceless returns the pod as a pod without a source.
func sourceless(pod *v1.Pod) *v1.Pod {
	copied := *pod // shares all but the annotations
	copied.Annotations = maps.Clone(pod.Annotations)
	delete(copied.Annotations, runtime.AnnotationConfigSource)
	return &copied
}
