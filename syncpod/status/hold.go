package status

import (
	"cmp"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// Merge returns the status to publish: next, with a phase that may follow last's phase, the status published
// before. last is nil, or has no phase, if there was none. So the published phases move from Pending over
// Running to Succeeded or Failed, possibly skipping some, and never back (kubernetes #58711, #105382):
//
//   - A terminal phase is final.
//   - A pod does not reach a terminal phase while one of its containers runs. A pod that is evicted, or
//     that fails before it is stopped, reaches it when it has stopped; pass Input.Evicted until then.
//   - A pod that was Running does not become Pending.
//
// [GeneratePodStatus] derives the phase from the observed state, as a kubelet does: a pod is Pending if a
// container waits for its first run in a new sandbox, whatever was reported before. Publish Merge's result, and
// pass it as [Input.Previous] for the next status. GeneratePodStatus itself keeps all other reported facts that
// must not be taken back, because other status parts depend on them.
//
// Merge is pure, and shares next's memory.
func Merge(last *v1.PodStatus, next v1.PodStatus) v1.PodStatus {
	if last == nil {
		last = &v1.PodStatus{}
	}
	switch {
	case runtime.IsTerminal(last.Phase), runtime.IsTerminal(next.Phase) && runs(&next):
		next.Phase, next.Reason, next.Message = cmp.Or(last.Phase, v1.PodPending), last.Reason, last.Message
	case last.Phase == v1.PodRunning && next.Phase == v1.PodPending:
		next.Phase = v1.PodRunning
	}
	return next
}

// runs reports whether any container in the pod runs.
func runs(s *v1.PodStatus) bool {
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				return true
			}
		}
	}
	return false
}
