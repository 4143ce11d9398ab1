package apistatus

import (
	"cmp"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// Merge returns the status to publish of a pod: next, with a phase that may follow
// that of last, the status that was published before: nil, or one without a phase,
// if none was. All that is published of a pod is then a walk from Pending over
// Running to Succeeded or Failed, which may leave out phases and never goes back
// (kubernetes #58711, #105382):
//
//   - A pod that has ended stays as it ended.
//   - A pod has not ended while a container of it runs. One that is evicted, or
//     that fails while it still has to be stopped, gets there when it has been;
//     pass Input.Evicted until then.
//   - A pod that was Running does not become Pending.
//
// [Compute] tells the phase from what is observed, as a kubelet does: a pod is
// Pending in which a container waits for its first run in a new sandbox, whatever
// was said of the pod before. Publish what Merge returns, and pass that as
// [Input.Previous] of the next status. Whatever else must not be taken back is
// kept by Compute, because other parts of a status follow from it.
//
// Merge is pure, and shares the memory of next.
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

// runs reports whether any container of the pod runs.
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
