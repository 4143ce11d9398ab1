package devices

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Capacity returns the number of devices of each resource, and how many of them pods may use, for the status of a Node.
// When a plugin disconnects, the allocatable number of its resource becomes 0 immediately, and the capacity after 5 min;
// the resource stays in both lists. After a restart of the agent both are 0 until the plugin reports its devices again.
func (m *Manager) Capacity() (capacity, allocatable v1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	capacity, allocatable = v1.ResourceList{}, v1.ResourceList{}
	for _, name := range m.ledger.Names() {
		all, healthy := m.ledger.Count(name, time.Now())
		capacity[v1.ResourceName(name)] = *resource.NewQuantity(int64(all), resource.DecimalSI)
		allocatable[v1.ResourceName(name)] = *resource.NewQuantity(int64(healthy), resource.DecimalSI)
	}
	return capacity, allocatable
}

// Devices returns the health of the devices of a pod's containers (KEP-4680). It is unknown while
// the plugin is disconnected.
func (m *Manager) Devices(pod *v1.Pod) map[string][]v1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string][]v1.ResourceStatus{}
	for container, held := range m.ledger.Held(pod.UID) {
		for _, name := range slices.Sorted(maps.Keys(held)) {
			status := v1.ResourceStatus{Name: v1.ResourceName(name)}
			for _, id := range slices.Sorted(slices.Values(held[name])) {
				status.Resources = append(status.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id), Health: m.ledger.Health(name, id)})
			}
			all[container] = append(all[container], status)
		}
	}
	return all
}

// Notify registers a function that is called for each pod with a device whose health has changed. A
// loop.Loop calls Notify.
func (m *Manager) Notify(changed func(types.UID)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notify = changed
}
