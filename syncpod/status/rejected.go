package status

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// rejectedPrefix begins a rejected pod's message, as a kubelet publishes it.
const rejectedPrefix = "Pod was rejected: "

// Rejected returns the status for a pod that the node rejects before it creates anything: status, copied, that is Failed, with
// the rejection's reason and message in a kubelet's form. GeneratePodStatus recognizes this status, even if another agent has
// published it, and reports no containers for such a pod. Rejected shares status's memory.
func Rejected(status v1.PodStatus, reason, message string) v1.PodStatus {
	status.Phase, status.Reason, status.Message = v1.PodFailed, reason, rejectedPrefix+message
	return status
}

// wasRejected reports whether the node rejected the pod before it created anything.
func (v *view) wasRejected() bool {
	s := v.before
	return s.Phase == v1.PodFailed && strings.HasPrefix(s.Message, rejectedPrefix) &&
		len(s.InitContainerStatuses)+len(s.ContainerStatuses)+len(s.EphemeralContainerStatuses) == 0 && v.Status.Empty()
}
