package tracked

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podruntime "github.com/podsync/podsync/runtime"
)

// delete deletes an object: at once, or after its finalizers have been removed and, for a running pod, its node has
// stopped it.
func (s *Store) delete(r request, o metav1.DeleteOptions) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.get(r)
	if err != nil {
		return nil, err
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return nil, r.conflict("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, old.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, r.conflict("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, old.GetResourceVersion())
		}
	}
	grace := graceOf(old, o)
	if was := old.GetDeletionGracePeriodSeconds(); was != nil && grace >= *was && !canDelete(old) {
		return old, nil // a grace period only becomes shorter
	}
	next := old.DeepCopyObject().(object)
	next.SetDeletionGracePeriodSeconds(&grace)
	ends := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	next.SetDeletionTimestamp(&ends)
	next.SetGeneration(old.GetGeneration() + 1)
	if canDelete(next) {
		return next, s.remove(r, next)
	}
	return next, s.write(r, old, next)
}

// graceOf returns a deletion's grace period in seconds. Only pods that run on a node have one.
func graceOf(o object, asked metav1.DeleteOptions) int64 {
	pod, ok := o.(*v1.Pod)
	switch {
	case !ok, pod.Spec.NodeName == "", podruntime.IsTerminal(pod.Status.Phase):
		return 0
	case asked.GracePeriodSeconds != nil:
		return max(*asked.GracePeriodSeconds, 0)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return v1.DefaultTerminationGracePeriodSeconds
}

// canDelete reports whether a deleted object can be removed: it has no finalizers, and no grace period is left.
func canDelete(o object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}
