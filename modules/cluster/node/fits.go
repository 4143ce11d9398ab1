package node

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
)

// resourcesFit checks the node's resources. If allocated is not nil, each pod counts as allocated
// returns it.
func (a *Admission) resourcesFit(pod *v1.Pod, activePods []*v1.Pod, allocated func(*v1.Pod) *v1.Pod) *syncpod.Rejection {
	allocatable := a.Node.config.Allocatable
	if most, ok := allocatable[v1.ResourcePods]; ok && int64(len(activePods))+1 > most.Value() {
		return outOf(v1.ResourcePods, 1, int64(len(activePods)), most.Value())
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
			return outOf(name, want.MilliValue(), has.MilliValue(), capacity.MilliValue())
		}
		return outOf(name, want.Value(), has.Value(), capacity.Value())
	}
	return nil
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

func outOf(name v1.ResourceName, requested, used, capacity int64) *syncpod.Rejection {
	return &syncpod.Rejection{
		Reason:  "OutOf" + string(name),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, requested, used, capacity),
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
