package eviction

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Reason is the status reason for a pod that was evicted, or that Admit
// rejects.
const Reason = "Evicted"

// An Eviction is a pod to evict, and its message.
type Eviction struct {
	Pod *v1.Pod
	// Signal is the cause: a node signal, or the pod's own limit that it exceeds.
	Signal Signal
	// GraceSeconds is the pod's grace period.
	GraceSeconds int64
	// Message is for people; the reason is Reason.
	Message string
	// Annotations are the event's: the resource that the node lacks, and the containers that use more than they request.
	// It is nil if the pod exceeds its own limit.
	Annotations map[string]string
	// Disruption is set if the node is under pressure: the pod then gets the condition DisruptionTarget. It is not set
	// if the pod exceeds its own limit.
	Disruption bool
}

// String describes the eviction.
func (e Eviction) String() string {
	pod := cmp.Or(e.Pod, &v1.Pod{})
	return fmt.Sprintf("evict %s/%s within %d s: %s: %s", pod.Namespace, pod.Name, e.GraceSeconds, e.Signal, strings.TrimSpace(e.Message))
}
