package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// WithReported returns the pod of a source with the status that was reported last, nil if there is none, so that the next status
// continues it. The source's own status takes precedence where it is newer: a terminal phase, and the conditions and
// the claims that others write. The result shares the rest with pod.
func WithReported(pod *v1.Pod, reported *v1.PodStatus) *v1.Pod {
	if pod == nil || reported == nil || runtime.IsTerminal(pod.Status.Phase) {
		return pod
	}
	copied := *pod
	copied.Status = *reported.DeepCopy()
	copied.Status.Conditions = withConditions(copied.Status.Conditions, pod.Status.Conditions)
	if claims := pod.Status.ResourceClaimStatuses; claims != nil {
		copied.Status.ResourceClaimStatuses = claims
	}
	if claim := pod.Status.ExtendedResourceClaimStatus; claim != nil {
		copied.Status.ExtendedResourceClaimStatus = claim
	}
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
		case Decides(c.Type):
		case known:
			conditions[i] = c
		default:
			at[c.Type] = len(conditions)
			conditions = append(conditions, c)
		}
	}
	return conditions
}
