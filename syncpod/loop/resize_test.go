package loop_test

import (
	"context"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/source"
)

// allocated returns the allocated and the actual CPU in the last status of a pod,
// and the reason why its request is not allocated.
func (a *agent) allocated(uid string) (allocated, inForce, waits string) {
	status := a.sink.of(types.UID(uid))
	for _, c := range status.Conditions {
		if c.Type == v1.PodResizePending {
			waits = c.Reason
		}
	}
	k := status.ContainerStatuses[0]
	return k.AllocatedResources.Cpu().String(), k.Resources.Requests.Cpu().String(), waits
}

// C10: a deferred resize is carried out as soon as another pod is removed, even after a restart of the agent,
// and not earlier.
func TestC10_DeferredResizeGetsItsRoom(t *testing.T) {
	for name, restart := range map[string]bool{"one agent": false, "the next agent": true} {
		t.Run(name, func(t *testing.T) {
			dir, records := t.TempDir(), t.TempDir()
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				with := func(uid, cpu string) *v1.Pod {
					p := api(pod("api", uid, uid, forever))
					p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
					return p
				}
				start := func() (*source.Push, *agent) {
					allocator, err := resize.New(resize.Config{State: dir, Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}})
					if err != nil {
						t.Fatal(err)
					}
					push := source.NewPush()
					return push, n.start([]source.Source{push}, func(c *nodeagent.Config) {
						c.Sync.Extensions.Allocations, c.Sync.Parts.Records = allocator, syncpod.FileRecords{Dir: records}
					})
				}
				push, a := start()
				want := func(when, allocated, inForce, waits string) {
					t.Helper()
					if x, y, z := a.allocated("a"); x != allocated || y != inForce || z != waits {
						t.Errorf("%s: allocated %s, in force %s, waits %q; want %s, %s, %q", when, x, y, z, allocated, inForce, waits)
					}
				}
				set(t, push, with("a", "1"), with("b", "2"))
				time.Sleep(time.Minute)
				set(t, push, with("a", "3"), with("b", "2"))
				time.Sleep(time.Hour)
				if restart {
					a.kill()
					push, a = start()
					set(t, push, with("a", "3"), with("b", "2"))
					time.Sleep(time.Minute)
				}
				want("while b is there", "1", "1", v1.PodReasonDeferred)
				set(t, push, with("a", "3"))
				time.Sleep(10 * time.Second)
				want("when b is gone", "3", "3", "")
				if updates := n.Journal().Count(critest.UpdateContainerResources); updates != 1 {
					t.Errorf("%d updates, want 1", updates)
				}
			})
		})
	}
}

// devices are the devices of a pod, whose health changes.
type devices struct {
	changed func(types.UID)

	mu     sync.Mutex
	health v1.ResourceHealthStatus
}

func (d *devices) Notify(changed func(types.UID)) { d.changed = changed }

func (d *devices) become(health v1.ResourceHealthStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health = health
}

func (d *devices) Devices(*v1.Pod) map[string][]v1.ResourceStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return map[string][]v1.ResourceStatus{"app": {{Name: "example.com/gpu", Resources: []v1.ResourceHealth{{ResourceID: "gpu-1", Health: d.health}}}}}
}

func (d *devices) Allocate(context.Context, *v1.Pod, *v1.Container) (device.Allocation, error) {
	return device.Allocation{}, nil
}

func (d *devices) Choose(context.Context, *v1.Pod, *v1.Container) error { return nil }

func (d *devices) KeptPods() ([]types.UID, error) { return nil, nil }

func (d *devices) RemovePod(context.Context, types.UID) error { return nil }

// A device that becomes unhealthy is reported at once (KEP-4680).
func TestDeviceFallsIll(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		d := &devices{health: v1.ResourceHealthStatusHealthy}
		push := source.NewPush()
		a := n.start([]source.Source{push}, func(c *nodeagent.Config) { c.Sync.Extensions.Devices = d })
		set(t, push, api(pod("api", "a", "a", forever)))
		time.Sleep(time.Minute)
		reported := func() v1.ResourceHealthStatus {
			return a.sink.of("a").ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0].Health
		}
		if got := reported(); got != v1.ResourceHealthStatusHealthy {
			t.Errorf("reported %s, want %v", got, v1.ResourceHealthStatusHealthy)
		}
		d.become(v1.ResourceHealthStatusUnhealthy)
		d.changed("a")
		time.Sleep(time.Second)
		if got := reported(); got != v1.ResourceHealthStatusUnhealthy {
			t.Errorf("reported %s a second after it fell ill", got)
		}
	})
}
