package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/numamemory"
)

// ServePodResources serves a kubelet's pod resources API (v1 and v1alpha1) on the listener until ctx ends, and closes the
// listener. Exporters of metrics use it to map devices to containers. pods returns the agent's pods; finished pods are
// skipped. The listener decides who may connect; a kubelet's is the socket /var/lib/kubelet/pod-resources/kubelet.sock. Up
// to 32 connections are open, with 4 concurrent calls each. Calls beyond 100 a second, after a burst of 10, fail with
// ResourceExhausted, as those of a kubelet. The answers have the exclusive CPUs and the memory of pinned, nil for
// none. They lack devices of resource claims, which a Manager does not allocate.
func (m *Manager) ServePodResources(ctx context.Context, listener net.Listener, pods func() []*v1.Pod, pinned Pinned) error {
	switch {
	case listener == nil:
		return errors.New("devices: ServePodResources: listener is nil")
	case pods == nil:
		return errors.New("devices: ServePodResources: pods is nil")
	}
	server := newServer(rateLimit(m.config.PodResourcesCalled))
	podresources.RegisterPodResourcesListerServer(server, lister{m: m, pods: pods, pinned: pinned})
	v1alpha1.RegisterPodResourcesListerServer(server, alphaLister{lister: lister{m: m, pods: pods, pinned: pinned}})
	stopped := context.AfterFunc(ctx, server.Stop)
	defer stopped()
	defer server.Stop()
	if err := server.Serve(&boundedListener{Listener: listener}); ctx.Err() == nil {
		return fmt.Errorf("devices: pod resources: %w", err)
	}
	return nil
}

// alphaLister serves version v1alpha1 of the API, which older exporters use.
type alphaLister struct {
	v1alpha1.UnimplementedPodResourcesListerServer
	lister lister
}

// List returns the devices of all active pods, sorted by name. It omits NUMA nodes and the devices of sidecars, because
// v1alpha1 is older than both.
func (a alphaLister) List(_ context.Context, _ *v1alpha1.ListPodResourcesRequest) (*v1alpha1.ListPodResourcesResponse, error) {
	resp := &v1alpha1.ListPodResourcesResponse{}
	for _, pod := range a.lister.active() {
		all := &v1alpha1.PodResources{Name: pod.Name, Namespace: pod.Namespace}
		for _, c := range a.lister.of(pod).Containers[sidecars(pod):] {
			container := &v1alpha1.ContainerResources{Name: c.Name}
			for _, d := range c.Devices {
				container.Devices = append(container.Devices, &v1alpha1.ContainerDevices{ResourceName: d.ResourceName, DeviceIds: d.DeviceIds})
			}
			all.Containers = append(all.Containers, container)
		}
		resp.PodResources = append(resp.PodResources, all)
	}
	slices.SortStableFunc(resp.PodResources, func(a, b *v1alpha1.PodResources) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return resp, nil
}

// sidecars counts a pod's sidecars.
func sidecars(pod *v1.Pod) (n int) {
	for i := range pod.Spec.InitContainers {
		if runtime.IsSidecar(&pod.Spec.InitContainers[i]) {
			n++
		}
	}
	return n
}

// lister serves version v1 of the API.
type lister struct {
	podresources.UnimplementedPodResourcesListerServer
	m    *Manager
	pods func() []*v1.Pod
	// pinned is nil if no container has exclusive CPUs or memory.
	pinned Pinned
}

// Pinned has the exclusive CPUs and the memory of containers. A *pinning.Manager of package syncpod/pinning implements it.
type Pinned interface {
	CPUs(pod types.UID, container string) cpu.Set
	Memory(pod types.UID, container string) []numamemory.Block
	// Allocatable returns what pods can get, whether or not they have it.
	Allocatable() (cpu.Set, []numamemory.Block)
}

// List returns the devices of all active pods, sorted by name.
func (l lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	resp := &podresources.ListPodResourcesResponse{}
	for _, pod := range l.active() {
		resp.PodResources = append(resp.PodResources, l.of(pod))
	}
	slices.SortStableFunc(resp.PodResources, func(a, b *podresources.PodResources) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return resp, nil
}

// Get returns one active pod's devices.
func (l lister) Get(_ context.Context, req *podresources.GetPodResourcesRequest) (*podresources.GetPodResourcesResponse, error) {
	for _, pod := range l.active() {
		if pod.Namespace == req.GetPodNamespace() && pod.Name == req.GetPodName() {
			return &podresources.GetPodResourcesResponse{PodResources: l.of(pod)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", req.GetPodName(), req.GetPodNamespace())
}

// GetAllocatableResources returns all healthy devices, allocated or not.
func (l lister) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	resp := &podresources.AllocatableResourcesResponse{}
	for _, name := range l.m.ledger.Names() {
		for _, d := range l.m.ledger.Healthy(name) {
			resp.Devices = append(resp.Devices, described(name, d)...)
		}
	}
	if l.pinned != nil {
		cpus, memory := l.pinned.Allocatable()
		resp.CpuIds, resp.Memory = idsOf(cpus), memoryOf(memory)
	}
	return resp, nil
}

func (l lister) active() []*v1.Pod {
	over := func(p *v1.Pod) bool { return runtime.IsTerminal(p.Status.Phase) }
	return slices.DeleteFunc(slices.Clone(l.pods()), over)
}

// of returns the devices of the pod's containers that run at the same time.
func (l lister) of(pod *v1.Pod) *podresources.PodResources {
	all := &podresources.PodResources{Name: pod.Name, Namespace: pod.Namespace}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	held := l.m.ledger.Held(pod.UID)
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; runtime.IsSidecar(c) {
			all.Containers = append(all.Containers, l.container(pod.UID, c.Name, held[c.Name]))
		}
	}
	for _, c := range pod.Spec.Containers {
		all.Containers = append(all.Containers, l.container(pod.UID, c.Name, held[c.Name]))
	}
	return all
}

// container returns one container's devices. The caller holds the lock.
func (l lister) container(pod types.UID, name string, held ledger.Held) *podresources.ContainerResources {
	c := &podresources.ContainerResources{Name: name}
	for _, resource := range slices.Sorted(maps.Keys(held)) {
		for _, id := range held[resource] {
			c.Devices = append(c.Devices, described(resource, l.m.ledger.Device(resource, id))...)
		}
	}
	if l.pinned != nil {
		c.CpuIds, c.Memory = idsOf(l.pinned.CPUs(pod, name)), memoryOf(l.pinned.Memory(pod, name))
	}
	return c
}

func idsOf(cpus cpu.Set) (ids []int64) {
	for id := range cpus.All() {
		ids = append(ids, int64(id))
	}
	return ids
}

func memoryOf(blocks []numamemory.Block) (all []*podresources.ContainerMemory) {
	for _, b := range blocks {
		m := &podresources.ContainerMemory{MemoryType: string(b.Resource), Size: b.Size, Topology: &podresources.TopologyInfo{}}
		for node := range b.Nodes.Nodes() {
			m.Topology.Nodes = append(m.Topology.Nodes, &podresources.NUMANode{ID: int64(node)})
		}
		all = append(all, m)
	}
	return all
}

// described converts a device as a kubelet does: one entry for each of its NUMA nodes.
func described(resource string, d ledger.Device) []*podresources.ContainerDevices {
	one := func(topology *podresources.TopologyInfo) *podresources.ContainerDevices {
		return &podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{d.ID}, Topology: topology}
	}
	if len(d.NUMANodes) == 0 {
		return []*podresources.ContainerDevices{one(nil)}
	}
	var all []*podresources.ContainerDevices
	for _, node := range d.NUMANodes {
		all = append(all, one(&podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: node}}}))
	}
	return all
}
