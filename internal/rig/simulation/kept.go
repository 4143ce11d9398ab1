package simulation

import (
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/device"
)

// kept is what the agents of an owner make on the node for pods: it outlives them, and its removal may fail.
type kept struct {
	// stuck is when a removal fails.
	stuck *outage
	mu    sync.Mutex
	pods  map[types.UID]bool
}

func newKept(stuck *outage) *kept { return &kept{stuck: stuck, pods: map[types.UID]bool{}} }

func (k *kept) add(pod types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod] = true
}

func (k *kept) has(pod types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pods[pod]
}

// all returns the pods that something is kept of, in order.
func (k *kept) all() []types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.pods))
}

// RemovePod removes what is kept of a pod, unless that fails now.
func (k *kept) RemovePod(_ context.Context, pod types.UID) error {
	if err := k.stuck.err(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, pod)
	return nil
}

// directories are the directories of pods, with mounts that may fail to be unmounted.
type directories struct {
	*kept
	volumes *outage
}

// PreparePod makes the volumes of a pod, while it can. A part of them may exist after an error.
func (d directories) PreparePod(_ context.Context, pod *v1.Pod) (sandbox.Input, error) {
	d.add(pod.UID)
	return sandbox.Input{}, d.volumes.err()
}

// cgroups are the cgroups of pods.
type cgroups struct{ *kept }

func (c cgroups) EnsureCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	c.add(pod.UID)
	return "", nil
}

func (c cgroups) RaiseCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	return c.EnsureCgroup(ctx, pod)
}

func (cgroups) PodsCgroup() string { return "" }

// annotationDevices marks the pods that need devices.
const annotationDevices = "simulation.test/devices"

// devices are the devices of pods. Without their plugin no pod gets new ones.
type devices struct {
	*kept
	plugin *outage
}

func (d devices) Allocate(_ context.Context, pod *v1.Pod, _ *v1.Container) (device.Allocation, error) {
	if pod.Annotations[annotationDevices] == "" {
		return device.Allocation{}, nil
	}
	if !d.has(pod.UID) {
		if err := d.plugin.err(); err != nil {
			return device.Allocation{}, err
		}
		d.add(pod.UID)
	}
	return device.Allocation{Devices: []device.Device{{HostPath: "/dev/null", ContainerPath: "/dev/null", Permissions: "rw"}}}, nil
}

// Choose leaves the choice to Allocate.
func (devices) Choose(context.Context, *v1.Pod, *v1.Container) error { return nil }

// Devices reports none.
func (devices) Devices(*v1.Pod) map[string][]v1.ResourceStatus { return nil }

// KeptPods returns the pods that have devices.
func (d devices) KeptPods() ([]types.UID, error) { return d.all(), nil }

// Notify is not needed: the devices do not change.
func (devices) Notify(func(types.UID)) {}

// annotationMounts marks the pods that mount an image, and a volume of a source that may be unavailable.
const annotationMounts = "simulation.test/mounts"

// mounts are the mounts of containers. volumes are set up once for a pod, which needs their source. pins exist only during the start
// of a container. While away is in effect, nothing can be mounted.
type mounts struct {
	volumes, pins *kept
	away          *outage
	source        func() error
}

func (m mounts) Mounts(_ context.Context, req container.MountRequest) (made container.Mounts, err error) {
	pod := req.Pod.UID
	if req.Pod.Annotations[annotationMounts] == "" {
		return made, nil
	}
	if err := m.away.err(); err != nil {
		return made, err
	}
	if !m.volumes.has(pod) {
		if err := m.source(); err != nil {
			return made, err
		}
		m.volumes.add(pod)
	}
	for _, vol := range req.Container.VolumeMounts {
		made.Mounts = append(made.Mounts, &runtimeapi.Mount{ContainerPath: vol.MountPath, Image: &runtimeapi.ImageSpec{Image: req.Images[vol.Name]}, Readonly: true})
	}
	m.pins.add(pod)
	made.Release = func() error { return m.pins.RemovePod(context.Background(), pod) }
	return made, nil
}
