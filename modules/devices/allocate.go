package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/syncpod/device"
)

// allocator chooses and frees the devices for the Keeper of a Manager.
type allocator struct{ m *Manager }

// Allocate chooses devices for a container and calls Allocate of their plugins. If one plugin fails, the container gets
// no device. It also fails while the list of resources for the next agent cannot be written.
func (a allocator) Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allocation, error) {
	a.m.mu.Lock()
	needs := a.m.ledger.Needs(container)
	a.m.mu.Unlock()
	if len(needs) > 0 {
		if err := a.m.saveKnown(); err != nil {
			return device.Allocation{}, fmt.Errorf("list of resources for the next agent: %w", err)
		}
	}
	var answers []answer
	for _, resource := range slices.Sorted(maps.Keys(needs)) {
		given, err := a.m.allocate(ctx, pod, container.Name, resource, needs[resource])
		if err != nil {
			a.m.giveBack(func() { a.m.ledger.Drop(pod.UID, container.Name) })
			return device.Allocation{}, err
		}
		answers = append(answers, given)
	}
	all, conflicts := merge(answers)
	for _, c := range conflicts {
		a.m.config.Log.Info("device plugins returned conflicting values", "podUID", pod.UID, "container", container.Name, "about", c)
	}
	return all, nil
}

// Release frees a pod's devices.
func (a allocator) Release(_ context.Context, uid types.UID) error {
	a.m.giveBack(func() {
		a.m.ledger.Release(uid)
		delete(a.m.unreadable, uid)
	})
	return nil
}

func (m *Manager) giveBack(back func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	back()
	m.notifyWaiters()
}

// allocate allocates devices of one resource to a container. They are marked as taken during
// their plugin's call, so that no other container gets them.
func (m *Manager) allocate(ctx context.Context, pod *v1.Pod, container, resource string, n int) (answer, error) {
	preferred, err := m.preferred(ctx, pod, container, resource, n)
	if err != nil {
		return answer{}, err
	}
	var ids []string
	err = m.await(ctx, func() error {
		choice, err := m.choose(pod, container, resource, n)
		if err != nil {
			return err
		}
		if ids = choice.Held; ids == nil {
			ids = choice.Pick(preferred)
			m.ledger.Take(pod.UID, container, ledger.Held{resource: ids})
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	given := answer{resource: resource, ids: ids}
	err = m.call(ctx, resource, "Allocate", func(ctx context.Context, p *plugin) error {
		resp, err := p.api.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
		if err == nil && len(resp.GetContainerResponses()) != 1 {
			err = fmt.Errorf("it has %d container_responses, want one", len(resp.GetContainerResponses()))
		}
		if err == nil {
			given.response = resp.GetContainerResponses()[0]
			err = checkAnswer(given.response)
		}
		return err
	})
	return given, err
}

// checkAnswer returns an error if a plugin assigns more than maxItems items to a container.
func checkAnswer(r *pluginapi.ContainerAllocateResponse) error {
	items := len(r.GetDevices()) + len(r.GetMounts()) + len(r.GetEnvs()) + len(r.GetAnnotations()) + len(r.GetCdiDevices())
	if items > maxItems {
		return fmt.Errorf("its answer has %d devices, mounts, envs, annotations and cdi_devices, want at most %d", items, maxItems)
	}
	return nil
}

// choose returns the devices that the container may get. The caller holds the lock.
func (m *Manager) choose(pod *v1.Pod, container, resource string, n int) (ledger.Choice, error) {
	choice, err := m.ledger.Choose(pod, container, resource, n, time.Now())
	if err == nil && choice.Held == nil {
		for uid, unread := range m.unreadable {
			return choice, fmt.Errorf("%s: %w: pod %s: %w", resource, errUnreadable, uid, unread)
		}
	}
	return choice, err
}

// preferred returns the devices that the plugin prefers among those that the container may get now.
// It returns none if there is no choice, or if the plugin has no preference.
func (m *Manager) preferred(ctx context.Context, pod *v1.Pod, container, resource string, n int) (ids []string, err error) {
	var choice ledger.Choice
	var asked bool
	err = m.await(ctx, func() (err error) {
		choice, err = m.choose(pod, container, resource, n)
		p := m.plugins[resource]
		asked = p != nil && p.options.GetGetPreferredAllocationAvailable()
		return err
	})
	if err != nil || !asked || choice.Need == 0 || choice.Need == len(choice.Free) {
		return nil, err
	}
	err = m.call(ctx, resource, "GetPreferredAllocation", func(ctx context.Context, p *plugin) error {
		resp, err := p.api.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: slices.Concat(choice.Must, choice.Free), MustIncludeDeviceIDs: choice.Must, AllocationSize: int32(n),
		}}})
		if r := resp.GetContainerResponses(); len(r) > 0 {
			ids = r[0].GetDeviceIDs()
		}
		return err
	})
	return ids, err
}

// preStart calls PreStartContainer of the plugins that require it.
func (m *Manager) preStart(ctx context.Context, held map[string][]string) error {
	for _, resource := range slices.Sorted(maps.Keys(held)) {
		m.mu.Lock()
		wanted := m.preStarts[resource]
		m.mu.Unlock()
		if !wanted {
			continue
		}
		err := m.call(ctx, resource, "PreStartContainer", func(ctx context.Context, p *plugin) error {
			_, err := p.api.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: held[resource]})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
