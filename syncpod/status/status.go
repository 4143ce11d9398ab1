package status

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/internal/order"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// GeneratePodStatus returns the status to report for a pod. It is a pure function: the same Input gives
// the same status; it performs no I/O and keeps no state. The result shares no memory with the Input. It
// may be called concurrently.
//
// If Validate rejects the Input, GeneratePodStatus returns the zero status.
func GeneratePodStatus(in Input) v1.PodStatus {
	if in.Validate() != nil {
		return v1.PodStatus{}
	}
	v := newView(in)
	s := v.others()
	s.ObservedGeneration = in.Pod.Generation
	s.QOSClass = qos.Class(in.Pod)
	s.StartTime = v.startTime()
	v.addContainers(&s)
	v.addPhase(&s)
	v.block(&s)
	v.addConditions(&s)
	v.addAddresses(&s)
	v.addPodResources(&s)
	sortByName(s.ContainerStatuses)
	sortByName(s.EphemeralContainerStatuses)
	return s
}

// view holds the facts that the rules use.
type view struct {
	Input // by value, so that it stays on the stack
	// before is the last reported status.
	before *v1.PodStatus
	// sandbox is the latest sandbox, to which current containers belong.
	sandbox *runtime.SandboxStatus
	// begun means that a regular container has a record in that sandbox, so initialization is complete;
	// initialized means that the init containers have succeeded, because that container was
	// certainly created.
	begun, initialized bool
	// room holds the resources for all containers, in one allocation.
	room []v1.ResourceRequirements
}

func (v *view) nextRoom() *v1.ResourceRequirements {
	next := &v.room[0]
	v.room = v.room[1:]
	return next
}

func newView(in Input) view {
	v := view{Input: in, before: in.previous(), sandbox: in.Status.LatestSandbox()}
	if len(in.Pod.Spec.InitContainers) > 0 {
		v.lookPastInit()
	}
	return v
}

// lookPastInit searches for regular containers. A container in an unknown state may have been lost before it was
// created.
func (v *view) lookPastInit() {
	for i := range v.Pod.Spec.Containers {
		if c := currentOf(v.Status, v.Pod.Spec.Containers[i].Name); c != nil && c.In(v.sandbox) {
			v.begun = true
			v.initialized = v.initialized || c.State != runtime.ContainerUnknown
		}
	}
}

// others returns what in the pod's status other components write.
func (v *view) others() v1.PodStatus {
	of := &v.Pod.Status
	s := v1.PodStatus{NominatedNodeName: of.NominatedNodeName}
	for i := range of.ResourceClaimStatuses {
		s.ResourceClaimStatuses = append(s.ResourceClaimStatuses, *of.ResourceClaimStatuses[i].DeepCopy())
	}
	for i := range of.NodeAllocatableResourceClaimStatuses {
		s.NodeAllocatableResourceClaimStatuses = append(s.NodeAllocatableResourceClaimStatuses, *of.NodeAllocatableResourceClaimStatuses[i].DeepCopy())
	}
	s.ExtendedResourceClaimStatus = of.ExtendedResourceClaimStatus.DeepCopy()
	return s
}

// startTime returns when an agent first observed the pod. It never changes.
func (v *view) startTime() *metav1.Time {
	for _, t := range []*metav1.Time{v.before.StartTime, v.Pod.Status.StartTime} {
		if !t.IsZero() {
			return t.DeepCopy()
		}
	}
	if v.Now.IsZero() {
		return nil
	}
	return new(metav1.NewTime(v.Now))
}

// block gives waiting containers the reason for which the pod is blocked.
func (v *view) block(s *v1.PodStatus) {
	if v.Blocked == nil {
		return
	}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil {
				w.Reason = string(Blocked)
			}
		}
	}
}

// sortByName sorts containers in the order that clients expect. Init containers stay in the
// spec's order.
func sortByName(list []v1.ContainerStatus) {
	for i := 1; i < len(list); i++ {
		if list[i].Name < list[i-1].Name {
			copy(list, order.Sorted(list, func(a, b *v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }))
			return
		}
	}
}
