package admission

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
)

// A shortage is a resource of the node of which a pod and the active pods request more than there is. CPU is in thousandths.
type shortage struct {
	name                      v1.ResourceName
	requested, used, capacity int64
}

// missing is the amount by which the resource is exceeded.
func (s shortage) missing() resource.Quantity {
	amount := s.requested + s.used - s.capacity
	if s.name == v1.ResourceCPU {
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}

func (s shortage) rejection() *syncpod.Rejection {
	return &syncpod.Rejection{
		Reason:  "OutOf" + string(s.name),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.name, s.requested, s.used, s.capacity),
	}
}

// resourcesFit checks the node's resources. If allocated is not nil, each pod counts as allocated
// returns it.
func (a *Admission) resourcesFit(pod *v1.Pod, activePods []*v1.Pod, allocated func(*v1.Pod) *v1.Pod) *syncpod.Rejection {
	if short := a.shortages(pod, activePods, allocated); len(short) > 0 {
		return short[0].rejection()
	}
	return nil
}

// shortages returns the resources of which the node has too little, the number of pods first.
func (a *Admission) shortages(pod *v1.Pod, activePods []*v1.Pod, allocated func(*v1.Pod) *v1.Pod) (short []shortage) {
	allocatable := a.Allocatable
	if most, ok := allocatable[v1.ResourcePods]; ok && int64(len(activePods))+1 > most.Value() {
		short = append(short, shortage{v1.ResourcePods, 1, int64(len(activePods)), most.Value()})
	}
	used := v1.ResourceList{}
	for _, other := range activePods {
		add(used, requests(other, allocated))
	}
	asked := requests(pod, allocated)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		capacity, known := allocatable[name]
		want, has := asked[name], used[name]
		if !known || want.IsZero() {
			continue // other admissions manage resources that the node does not know
		}
		sum := want.DeepCopy()
		sum.Add(has)
		if sum.Cmp(capacity) <= 0 {
			continue
		}
		if name == v1.ResourceCPU {
			short = append(short, shortage{name, want.MilliValue(), has.MilliValue(), capacity.MilliValue()})
			continue
		}
		short = append(short, shortage{name, want.Value(), has.Value(), capacity.Value()})
	}
	return short
}

func requests(pod *v1.Pod, allocated func(*v1.Pod) *v1.Pod) v1.ResourceList {
	if allocated != nil {
		pod = allocated(pod)
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

func add(sum, more v1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

// portsFree is about ports of the node.
func portsFree(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
	wanted := hostPorts(pod)
	if len(wanted) == 0 {
		return nil
	}
	for _, other := range activePods {
		for _, taken := range hostPorts(other) {
			if slices.ContainsFunc(wanted, taken.conflicts) {
				return predicateFailed("NodePorts")
			}
		}
	}
	return nil
}

// A hostPort is a port of the node at one of its addresses; "" means all addresses.
type hostPort struct {
	protocol v1.Protocol
	ip       string
	port     int32
}

func (p hostPort) conflicts(other hostPort) bool {
	return p.port == other.port && p.protocol == other.protocol && (p.ip == "" || other.ip == "" || p.ip == other.ip)
}

// hostPorts returns the ports of the containers that run at the same time. It ignores init
// containers that end, as the scheduler does.
func hostPorts(pod *v1.Pod) (ports []hostPort) {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; runtime.IsSidecar(c) {
			ports = append(ports, portsOf(c)...)
		}
	}
	for i := range pod.Spec.Containers {
		ports = append(ports, portsOf(&pod.Spec.Containers[i])...)
	}
	return ports
}

func portsOf(c *v1.Container) (ports []hostPort) {
	for _, p := range c.Ports {
		if p.HostPort == 0 {
			continue
		}
		ip := p.HostIP
		if ip == "0.0.0.0" || ip == "::" {
			ip = ""
		}
		ports = append(ports, hostPort{p.Protocol, ip, p.HostPort})
	}
	return ports
}
