package admission

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/podspec/resources"
)

// rejection returns a kubelet's rejection for a shortage.
func rejection(short resources.Shortage) *syncpod.Rejection {
	return &syncpod.Rejection{Reason: "OutOf" + string(short.Name), Message: short.Message()}
}

// resourcesFit checks the node's resources. If allocated is not nil, each pod counts as allocated
// returns it.
func (a *Admission) resourcesFit(pod *v1.Pod, activePods []*v1.Pod, allocated func(*v1.Pod) *v1.Pod) *syncpod.Rejection {
	if short := a.shortages(pod, activePods, allocated); len(short) > 0 {
		return rejection(short[0])
	}
	return nil
}

// shortages returns the resources that are insufficient on the node, the number of pods first.
func (a *Admission) shortages(pod *v1.Pod, activePods []*v1.Pod, allocated func(*v1.Pod) *v1.Pod) (all []resources.Shortage) {
	pods := resources.Shortage{Name: v1.ResourcePods, Requested: *resource.NewQuantity(1, resource.DecimalSI), Used: *resource.NewQuantity(int64(len(activePods)), resource.DecimalSI)}
	var limited bool
	if pods.Capacity, limited = a.Allocatable[v1.ResourcePods]; limited && int64(len(activePods)) >= pods.Capacity.Value() {
		all = append(all, pods)
	}
	if allocated != nil {
		pod, activePods = allocated(pod), slices.Clone(activePods)
		for i, other := range activePods {
			activePods[i] = allocated(other)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Allocatable)) { // other admissions manage resources that the node does not know
		if requested := resources.Requested(pod, name); requested.IsZero() {
			continue
		}
		if short, ok := resources.Find(pod, activePods, name, a.Allocatable[name]); ok {
			all = append(all, short)
		}
	}
	return all
}

// portsFree rejects a pod if another active pod uses one of its host ports.
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

// A hostPort is a node port at one of its addresses; "" means all addresses.
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
