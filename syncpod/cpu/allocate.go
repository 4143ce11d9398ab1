package cpu

import (
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
	"github.com/podsync/podsync/syncpod/topology"
)

// ReasonSMT is a kubelet's reason for a pod that FullPCPUsOnly rejects. Other pods are rejected with topology.ReasonUnexpected.
const ReasonSMT = "SMTAlignmentError"

func refused(reason string, c *v1.Container, format string, args ...any) *topology.Refusal {
	return &topology.Refusal{Reason: reason, Message: fmt.Sprintf("container %q: ", c.Name) + fmt.Sprintf(format, args...), Container: c.Name, Resource: v1.ResourceCPU}
}

// Exclusive returns the number of exclusive CPUs that a container requests: none without the static policy, if the pod is not Guaranteed
// or has resources of its own, and if the request is not an integer.
func (a *Allocator) Exclusive(pod *v1.Pod, c *v1.Container) int {
	if a.policy != Static || pod == nil || c == nil {
		return 0
	}
	request := c.Resources.Requests.Cpu()
	if request.IsZero() || request.MilliValue()%1000 != 0 || podLevel(pod) || qos.FromSpec(&pod.Spec) != v1.PodQOSGuaranteed {
		return 0
	}
	return int(request.Value())
}

func podLevel(pod *v1.Pod) bool {
	return pod.Spec.Resources != nil && len(pod.Spec.Resources.Requests)+len(pod.Spec.Resources.Limits) > 0
}

// Allocate returns the exclusive CPUs of a container, from the NUMA nodes of the affinity as far as they have free ones. An empty set
// means that the container runs in the shared pool. If the State has CPUs for the container already, Allocate returns these. The container
// may get CPUs of the pod's init containers that finish before it starts, but none of a sidecar's.
//
// The caller adds the CPUs to the State before it asks for the pod's next container, in the order in which the containers start. An
// error is a *topology.Refusal.
func (a *Allocator) Allocate(s State, pod *v1.Pod, c *v1.Container, affinity topology.Hint) (Set, error) {
	n := a.Exclusive(pod, c)
	if n == 0 {
		return Set{}, nil
	}
	if has := s.Of(pod.UID, c.Name); !has.IsEmpty() {
		return has, nil
	}
	reusable := s.reusable(pod)
	free := a.free(s).Union(reusable)
	if a.options.FullPCPUsOnly {
		threads := a.layout.average(a.layout.cores)
		if n%threads != 0 {
			return Set{}, refused(ReasonSMT, c, "%d CPUs are not whole cores of %d threads", n, threads)
		}
		if whole := a.free(s).Minus(a.reservedCores()).Len(); n > whole {
			return Set{}, refused(ReasonSMT, c, "%d CPUs requested, and %d free on cores without a reserved CPU", n, whole)
		}
	}
	if n > free.Len() {
		return Set{}, refused(topology.ReasonUnexpected, c, "%d CPUs requested, and %d free", n, free.Len())
	}
	var taken Set
	if affinity.Nodes != 0 {
		aligned := free.Intersect(a.alignedWith(affinity.Nodes))
		taken = a.choose(aligned, min(n, aligned.Len()))
	}
	return taken.Union(a.choose(free.Minus(taken), n-taken.Len())), nil
}

// choose takes n of the free CPUs.
func (a *Allocator) choose(free Set, n int) Set {
	if a.options.DistributeAcrossNUMA {
		chunk := 1
		if a.options.FullPCPUsOnly {
			chunk = a.layout.average(a.layout.cores)
		}
		return a.layout.distribute(free, n, chunk, a.options)
	}
	return a.layout.take(free, n, a.options)
}

// alignedWith returns the CPUs of NUMA nodes, or those of their sockets with AlignBySocket.
func (a *Allocator) alignedWith(nodes topology.Mask) Set {
	cpus := a.layout.cpusOf(nodes)
	if !a.options.AlignBySocket {
		return cpus
	}
	var whole Set
	for _, socket := range a.layout.sockets {
		if socket.cpus.common(cpus) > 0 {
			whole = whole.Union(socket.cpus)
		}
	}
	return whole
}

// reservedCores returns the CPUs of cores that have a reserved CPU.
func (a *Allocator) reservedCores() Set {
	var cpus Set
	for _, core := range a.layout.cores {
		if core.cpus.common(a.reserved) > 0 {
			cpus = cpus.Union(core.cpus)
		}
	}
	return cpus
}

// free returns the CPUs that a container could have alone.
func (a *Allocator) free(s State) Set { return a.layout.all.Minus(a.reserved).Minus(s.assigned()) }

// Allocatable returns the CPUs that are not reserved.
func (a *Allocator) Allocatable() Set {
	if a.layout == nil {
		return Set{}
	}
	return a.layout.all.Minus(a.reserved)
}

// Shared returns the CPUs of containers without exclusive ones. It is empty with the policy none, which restricts no container, and if
// StrictReservation is set and all other CPUs are exclusive.
func (a *Allocator) Shared(s State) Set {
	switch {
	case a.layout == nil:
		return Set{}
	case a.options.StrictReservation:
		return a.free(s)
	}
	return a.layout.all.Minus(s.assigned())
}

// CPUs returns the CPUs on which a container runs: its exclusive ones, or the shared pool.
func (a *Allocator) CPUs(s State, pod types.UID, container string) Set {
	if own := s.Of(pod, container); !own.IsEmpty() {
		return own
	}
	return a.Shared(s)
}

// Check returns an error if a State does not fit the machine or the reserved CPUs, for example because it was stored before the machine
// or the configuration changed.
func (a *Allocator) Check(s State) error {
	if a.layout == nil {
		if !s.assigned().IsEmpty() {
			return fmt.Errorf("the policy none has no exclusive CPUs, and the state has %s", s.assigned())
		}
		return nil
	}
	used := Set{}
	for pod, containers := range s.Pods {
		var own Set
		for name, cpus := range containers {
			if !a.Allocatable().Contains(cpus) {
				return fmt.Errorf("pod %s, container %s: not all of the CPUs %s can be allocated, only %s", pod, name, cpus, a.Allocatable())
			}
			own = own.Union(cpus)
		}
		if used.common(own) > 0 {
			return fmt.Errorf("pod %s: another pod has one of its CPUs %s", pod, own)
		}
		used = used.Union(own)
	}
	return nil
}

// Resize refuses a new CPU request of a container of a Guaranteed pod, as the static policy of a kubelet does: exclusive CPUs do not
// change while a container runs.
func (a *Allocator) Resize(allocated, desired *v1.Pod) error {
	if a.policy != Static || allocated == nil || desired == nil || qos.FromSpec(&desired.Spec) != v1.PodQOSGuaranteed {
		return nil
	}
	for c := range containers(desired) {
		for old := range containers(allocated) {
			if old.Name == c.Name && !old.Resources.Requests.Cpu().Equal(*c.Resources.Requests.Cpu()) {
				return refused(v1.PodReasonInfeasible, c, "the static CPU policy does not resize the CPUs of Guaranteed pods")
			}
		}
	}
	return nil
}

// reusable returns the CPUs of init containers that finish before the next containers of the pod start, without those that a later
// container has got.
func (s State) reusable(pod *v1.Pod) Set {
	own := s.Pods[pod.UID]
	if len(own) == 0 {
		return Set{}
	}
	var finished, kept Set
	for c := range containers(pod) {
		if cpus := own[c.Name]; isInit(pod, c) && !runtime.IsSidecar(c) {
			finished = finished.Union(cpus)
		} else {
			kept = kept.Union(cpus)
		}
	}
	return finished.Minus(kept)
}

// containers yields the init containers and then the regular containers of a pod.
func containers(pod *v1.Pod) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

func isInit(pod *v1.Pod, c *v1.Container) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return true
		}
	}
	return false
}
