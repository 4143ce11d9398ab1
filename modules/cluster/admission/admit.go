package admission

import (
	"fmt"
	goruntime "runtime"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/go-logr/logr"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/loop"
)

// A Node is the Node object of the API server. A *node.Node of modules/cluster is one.
type Node interface {
	// IsRegistered reports whether the API server has the Node.
	IsRegistered() bool
	// Object returns the last known version of the Node. The Admission does not modify it.
	Object() *v1.Node
	// Newest reads the Node. If that fails, it returns the last known version. It is called only after the registration.
	Newest() *v1.Node
}

// Admission decides which pods fit on a node. It is a loop.Admission.
type Admission struct {
	// Node is the Node object, for its labels and taints. Required.
	Node Node
	// NodeName is the node's name. Required.
	NodeName string
	// Allocatable are the node's resources for pods. A resource that is not in it is unlimited. Required.
	Allocatable v1.ResourceList
	// AllowedSysctls are sysctls that pods may set in addition to the safe ones; a * at the end
	// matches any suffix. Default: none.
	AllowedSysctls []string
	// AppArmor is set if the machine has AppArmor. Default: pods that request a profile are rejected.
	AppArmor bool
	// Allocated returns a copy of a pod with its allocated resources, which may differ from the
	// requested ones. Default: the requested resources count.
	Allocated func(*v1.Pod) *v1.Pod
	// Reserve calls fits and, if it returns true, counts the pod from then on, like
	// Reserve of a resize.Allocator: no resize can take the resources in between. Default: fits decides.
	Reserve func(pod *v1.Pod, fits func(allocated func(*v1.Pod) *v1.Pod) bool) bool
	// Preemption stops pods so that a critical pod fits. Default: a critical pod that does not fit is rejected.
	Preemption *Preemption
}

var _ loop.Admission = (*Admission)(nil)

// Admit returns why a pod cannot run on the node besides the active pods, nil if it can. A critical pod for which only
// resources are missing stops other pods through the Preemption, if there is one.
func (a *Admission) Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
	refused := first(
		func() *syncpod.Rejection { return sysctlsAllowed(pod, a.AllowedSysctls) },
		func() *syncpod.Rejection { return appArmorFits(pod, a.AppArmor) },
		func() *syncpod.Rejection { return a.nameFits(pod) },
		func() *syncpod.Rejection { return systemFits(pod) },
	)
	if refused != nil {
		return refused
	}
	var stop []*v1.Pod
	remaining, short := activePods, a.shortages(pod, activePods, a.Allocated)
	if len(short) > 0 {
		var room bool
		if stop, remaining, room = a.preempt(pod, activePods); !room {
			return rejection(short[0])
		}
	}
	refused = first(
		func() *syncpod.Rejection { return a.fitsNode(pod, placeFits) },
		func() *syncpod.Rejection { return portsFree(pod, activePods) },
		func() *syncpod.Rejection { return a.fitsNode(pod, taintsTolerated) },
		func() *syncpod.Rejection { return a.reserve(pod, remaining) },
	)
	if refused == nil && len(remaining) < len(activePods) {
		a.Preemption.stop(pod, short[0].Name, stop)
	}
	return refused
}

// first returns the checks' first rejection.
func first(checks ...func() *syncpod.Rejection) *syncpod.Rejection {
	for _, check := range checks {
		if refused := check(); refused != nil {
			return refused
		}
	}
	return nil
}

// preempt returns the pods that must stop so that the pod fits, and the active pods that remain: those that stop for an
// earlier critical pod do not count.
func (a *Admission) preempt(pod *v1.Pod, activePods []*v1.Pod) (stop, remaining []*v1.Pod, ok bool) {
	if a.Preemption == nil {
		return nil, activePods, false
	}
	remaining = slices.DeleteFunc(slices.Clone(activePods), a.Preemption.isStopping)
	allocated, missing := make([]*v1.Pod, len(remaining)), v1.ResourceList{}
	for i, other := range remaining {
		if allocated[i] = other; a.Allocated != nil {
			allocated[i] = a.Allocated(other)
		}
	}
	for _, short := range a.shortages(pod, remaining, a.Allocated) {
		missing[short.Name] = short.Missing()
	}
	if stop, ok = eviction.Preempt(pod, allocated, missing); !ok {
		return nil, activePods, false
	}
	stops := map[types.UID]bool{}
	for _, p := range stop {
		stops[p.UID] = true
	}
	return stop, slices.DeleteFunc(remaining, func(p *v1.Pod) bool { return stops[p.UID] }), true
}

// reserve checks the resources again after all other checks have passed, and reserves them.
func (a *Admission) reserve(pod *v1.Pod, activePods []*v1.Pod) (refused *syncpod.Rejection) {
	if a.Reserve == nil {
		return nil
	}
	a.Reserve(pod, func(allocated func(*v1.Pod) *v1.Pod) bool {
		refused = a.resourcesFit(pod, activePods, allocated)
		return refused == nil
	})
	return refused
}

// nameFits checks the node's name. A checkpoint may contain a pod of an earlier name of this
// machine.
func (a *Admission) nameFits(pod *v1.Pod) *syncpod.Rejection {
	if name := pod.Spec.NodeName; name != "" && name != a.NodeName {
		return predicateFailed("NodeName")
	}
	return nil
}

// systemFits checks the operating system and the architecture.
func systemFits(pod *v1.Pod) *syncpod.Rejection {
	if os, asks := pod.Spec.NodeSelector[v1.LabelOSStable]; asks && os != goruntime.GOOS {
		return &syncpod.Rejection{Reason: "PodOSSelectorNodeLabelDoesNotMatch", Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) != goruntime.GOOS {
		return &syncpod.Rejection{Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

// fitsNode checks a pod against the Node object. The object may have changed just before the pod was
// bound, so a failed check is repeated with a fresh one. Static pods are not checked, because no
// scheduler bound them; nor are pods before the node's registration, because an earlier agent has
// admitted them.
func (a *Admission) fitsNode(pod *v1.Pod, fits func(*v1.Pod, *v1.Node) *syncpod.Rejection) *syncpod.Rejection {
	if runtime.IsStatic(pod) || !a.Node.IsRegistered() || fits(pod, a.Node.Object()) == nil {
		return nil
	}
	return fits(pod, a.Node.Newest())
}

// placeFits checks the node selector and the node affinity.
func placeFits(pod *v1.Pod, node *v1.Node) *syncpod.Rejection {
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !fits {
		return predicateFailed("NodeAffinity")
	}
	return nil
}

// taintsTolerated checks taints that evict running pods (NoExecute). Other taints affect only
// scheduling.
func taintsTolerated(pod *v1.Pod, node *v1.Node) *syncpod.Rejection {
	ends := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	if _, found := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, ends, true); found {
		return predicateFailed("TaintToleration")
	}
	return nil
}

func predicateFailed(name string) *syncpod.Rejection {
	return &syncpod.Rejection{Reason: name, Message: fmt.Sprintf("Predicate %s failed", name)}
}
