package devices

import (
	"fmt"
	"maps"
	"slices"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/syncpod/device"
)

// An answer is the plugin's response to Allocate for one resource.
type answer struct {
	resource string
	ids      []string
	response *pluginapi.ContainerAllocateResponse
}

// merge combines all responses. If two of them set the same thing differently, the first wins, and
// merge reports the conflict.
func merge(answers []answer) (all device.Allocation, conflicts []string) {
	devices, mounts := map[string]device.Device{}, map[string]device.Mount{}
	for _, a := range answers {
		if all.Resources == nil {
			all.Resources = map[string][]string{}
		}
		all.Resources[a.resource] = a.ids
		conflict := func(kind, name string) {
			conflicts = append(conflicts, fmt.Sprintf("%s %q, which is not the one of %s", kind, name, a.resource))
		}
		for _, d := range a.response.GetDevices() {
			next := device.Device{HostPath: d.GetHostPath(), ContainerPath: d.GetContainerPath(), Permissions: d.GetPermissions()}
			if first, twice := devices[next.ContainerPath]; !twice {
				devices[next.ContainerPath] = next
				all.Devices = append(all.Devices, next)
			} else if first != next {
				conflict("device", next.ContainerPath)
			}
		}
		for _, m := range a.response.GetMounts() {
			next := device.Mount{HostPath: m.GetHostPath(), ContainerPath: m.GetContainerPath(), ReadOnly: m.GetReadOnly()}
			if first, twice := mounts[next.ContainerPath]; !twice {
				mounts[next.ContainerPath] = next
				all.Mounts = append(all.Mounts, next)
			} else if first != next {
				conflict("mount", next.ContainerPath)
			}
		}
		mergeValues(&all.Env, a.response.GetEnvs(), func(name string) { conflict("variable", name) })
		mergeValues(&all.Annotations, a.response.GetAnnotations(), func(name string) { conflict("annotation", name) })
		for _, c := range a.response.GetCdiDevices() {
			if !slices.Contains(all.CDIDevices, c.GetName()) {
				all.CDIDevices = append(all.CDIDevices, c.GetName())
			}
		}
	}
	return all, conflicts
}

// mergeValues adds missing values. Conflicts name the key only, because values may be secret.
func mergeValues(all *map[string]string, more map[string]string, conflict func(name string)) {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		first, twice := (*all)[name]
		switch {
		case *all == nil:
			*all = map[string]string{name: more[name]}
		case !twice:
			(*all)[name] = more[name]
		case first != more[name]:
			conflict(name)
		}
	}
}
