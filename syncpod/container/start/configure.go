package start

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/device"
)

// inputOf returns the input of the environment that the start of a container knows.
func inputOf(t *target) env.Input {
	return env.Input{Pod: t.pod.Spec, Container: t.spec.Name, PodIPs: t.pod.Sandbox.IPs}
}

// configInput returns the container's configuration input.
func (s *Starter) configInput(t *target, images pulled, found container.Image, attempt uint32, cpuset runtime.CPUSet, given device.Allocation, vars []env.Var, mounts container.Mounts) container.Input {
	sandbox := &t.pod.Sandbox
	return container.Input{
		Pod: t.pod.Spec, Name: t.spec.Name, Attempt: attempt,
		Image: found, Env: vars,
		Mounts:     slices.Concat(criMounts(given), mounts.Mounts),
		Devices:    slices.Concat(criDevices(given), mounts.Devices),
		CDIDevices: slices.Concat(criCDIDevices(given), mounts.CDIDevices), Annotations: images.annotate(merged(given.Annotations, mounts.Annotations)),
		TargetID: targetID(t), UserNamespace: sandbox.UserNamespace, ExtraGroups: sandbox.ExtraGroups, CPUSet: cpuset,
		Labels: s.config.Owner.Mark(nil), Node: s.config.Node,
	}
}

// targetID returns the container whose processes an ephemeral container sees.
func targetID(t *target) string {
	if t.step.Container.Kind != actions.EphemeralContainer {
		return ""
	}
	seen := t.pod.Status.Latest(t.pod.Spec.Spec.EphemeralContainers[t.step.Container.Index].TargetContainerName)
	if seen == nil || seen.State != runtime.ContainerRunning {
		return ""
	}
	return seen.ID.ID
}

// checkMounts ensures that a container gets everything that its spec mounts. No container runs without its
// volumes, whichever part does not provide them.
func checkMounts(c *v1.Container, m container.Mounts) error {
	mounted := map[string]bool{} // a pod may have tens of thousands of mounts
	for _, got := range m.Mounts {
		mounted[path.Join("/", got.GetContainerPath())] = true
	}
	for _, want := range c.VolumeMounts {
		if at := path.Join("/", want.MountPath); !mounted[at] {
			return fmt.Errorf("container %q mounts volume %q at %s, %w", c.Name, want.Name, want.MountPath, ErrNotProvided)
		}
	}
	for _, want := range c.VolumeDevices {
		if !slices.ContainsFunc(m.Devices, func(got *runtimeapi.Device) bool { return got.GetContainerPath() == want.DevicePath }) {
			return fmt.Errorf("container %q uses volume %q as the device %s, %w", c.Name, want.Name, want.DevicePath, ErrNotProvided)
		}
	}
	return nil
}

// devices returns the container's allocation of the node's devices.
func (s *Starter) devices(ctx context.Context, t *target) (device.Allocation, error) {
	if s.config.Devices == nil {
		return device.Allocation{}, nil
	}
	return s.config.Devices.Allocate(ctx, t.pod.Spec, t.spec)
}

// merged returns a map with the entries of both. For a key of both maps, the second one counts.
func merged(first, second map[string]string) map[string]string {
	if len(first) == 0 {
		return second
	}
	all := maps.Clone(first)
	maps.Copy(all, second)
	return all
}

// criDevices returns the allocated device nodes as CRI messages.
func criDevices(a device.Allocation) []*runtimeapi.Device {
	var devices []*runtimeapi.Device
	for _, d := range a.Devices {
		devices = append(devices, &runtimeapi.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
	}
	return devices
}

// criMounts returns the allocated mounts as CRI messages.
func criMounts(a device.Allocation) []*runtimeapi.Mount {
	var mounts []*runtimeapi.Mount
	for _, m := range a.Mounts {
		mounts = append(mounts, &runtimeapi.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly})
	}
	return mounts
}

// criCDIDevices returns the allocated CDI devices as CRI messages.
func criCDIDevices(a device.Allocation) []*runtimeapi.CDIDevice {
	var devices []*runtimeapi.CDIDevice
	for _, name := range a.CDIDevices {
		devices = append(devices, &runtimeapi.CDIDevice{Name: name})
	}
	return devices
}

// withDevices returns a container's variables, preceded by those of its devices, sorted by name. If both have a
// name, the container's value applies.
func withDevices(a device.Allocation, vars []env.Var) []env.Var {
	if len(a.Env) == 0 {
		return vars
	}
	set := map[string]bool{}
	for _, v := range vars {
		set[v.Name] = true
	}
	var all []env.Var
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if !set[name] {
			all = append(all, env.Var{Name: name, Value: a.Env[name]})
		}
	}
	return append(all, vars...)
}
