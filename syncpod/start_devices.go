package syncpod

import (
	"maps"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/device"
)

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

// withDevices returns the variables of a container, preceded by those of its devices, sorted by name. If both have a
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
