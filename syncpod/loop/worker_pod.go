package loop

import (
	"maps"
	"reflect"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// A workerPod is a pod that the workers were told of, from then until they forget it.
// It is guarded by podTable.mu, which is held while they are told, so that what they are
// told last is what is true.
type workerPod struct {
	source string
	// desired is the pod as its source has it, nil once that does not want it.
	desired *v1.Pod
	// pod is what the workers have: desired with the status that was reported last.
	pod *v1.Pod
	// restartRequested: desired is a new pod with the UID of pod, which is stopping, and has
	// to wait until that is forgotten (kubernetes #104648).
	restartRequested bool
	// endedBefore: the pod had ended, or was refused, before the workers were told of it. They
	// finish a static pod that never had its turn without a call, as a kubelet does, so
	// they get it as one of no source: what an earlier agent has left of it has to be
	// cleaned up (kubernetes #105527), and its end to be reported.
	endedBefore bool
}

// differs reports whether a pod has changed in a way that matters for its work. Its
// status does not, most of which is an echo of what was reported, but for what
// others say in it.
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
		!reflect.DeepEqual(foreign(before.Status.Conditions), foreign(after.Status.Conditions))
}

// foreign returns the state of the conditions that others than the node set, such
// as readiness gates.
func foreign(conditions []v1.PodCondition) map[v1.PodConditionType]v1.ConditionStatus {
	states := map[v1.PodConditionType]v1.ConditionStatus{}
	for _, c := range conditions {
		if !isOurs(c.Type) {
			states[c.Type] = c.Status
		}
	}
	return states
}

func isOurs(t v1.PodConditionType) bool {
	switch t {
	case v1.PodReady, v1.ContainersReady, v1.PodInitialized, v1.PodScheduled, v1.PodReadyToStartContainers:
		return true
	}
	return false
}

// withStatus returns the pod with the status that was reported of it last, nil if
// none was. What its source says counts where the source knows better: that the pod
// is over, and what others have set.
func withStatus(pod *v1.Pod, reported *v1.PodStatus) *v1.Pod {
	if reported == nil || runtime.IsTerminal(pod.Status.Phase) {
		return pod
	}
	copied := *pod // shares all but the status, and is not written to either
	copied.Status = *reported.DeepCopy()
	for _, c := range pod.Status.Conditions {
		if !isOurs(c.Type) {
			copied.Status.Conditions = setCondition(copied.Status.Conditions, c)
		}
	}
	return &copied
}

func setCondition(conditions []v1.PodCondition, c v1.PodCondition) []v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == c.Type {
			conditions[i] = c
			return conditions
		}
	}
	return append(conditions, c)
}

// sourceless returns the pod as one of no source.
func sourceless(pod *v1.Pod) *v1.Pod {
	copied := *pod // shares all but the annotations
	copied.Annotations = maps.Clone(pod.Annotations)
	delete(copied.Annotations, runtime.AnnotationConfigSource)
	return &copied
}
