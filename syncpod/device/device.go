// Package device persists the allocations of a node's devices to containers.
//
// An [Allocator] decides which devices exist and which container gets them: a device manager with
// device plugins, a DRA driver, or a few lines from a program. It is called once for each
// container, before the first creation. A [Keeper] persists the result before it is used, and
// returns it for each later instance of the container, also after an agent restart, until the pod
// is removed. It is a syncpod.Extensions.Devices:
//
//	devices, err := device.New(device.Config{State: "/var/lib/my-agent/devices", Allocator: mine})
//	sync := syncpod.Config{Extensions: syncpod.Extensions{Devices: devices}}
package device

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// An Allocation is a container's allocation. The zero Allocation is empty. Its JSON is stored in
// files.
type Allocation struct {
	// Devices are device nodes to create in the container.
	Devices []Device `json:"devices,omitempty"`
	// Mounts are files and directories that the container needs for them.
	Mounts []Mount `json:"mounts,omitempty"`
	// Env are environment variables, by name. A variable in the container's spec takes
	// precedence.
	Env map[string]string `json:"env,omitempty"`
	// Annotations are passed to the runtime.
	Annotations map[string]string `json:"annotations,omitempty"`
	// CDIDevices are the full names of devices of the Container Device Interface, such as
	// vendor.com/class=name.
	CDIDevices []string `json:"cdiDevices,omitempty"`
	// Resources are the IDs of the allocated devices, by resource name. They are not passed to the
	// runtime; they tell the Allocator which container has which device.
	Resources map[string][]string `json:"resources,omitempty"`
}

// A Device is a device node.
type Device struct {
	// HostPath is the device's path on the node, ContainerPath its path in the container. Both are
	// absolute.
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	// Permissions are some of r, w and m, for read, write and mknod.
	Permissions string `json:"permissions"`
}

// A Mount is a file or directory of the node.
type Mount struct {
	// HostPath is the path on the node, ContainerPath the path in the container. Both are absolute.
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	ReadOnly      bool   `json:"readOnly,omitempty"`
}

// isZero reports whether the Allocation is empty.
func (a Allocation) isZero() bool {
	return len(a.Devices) == 0 && len(a.Mounts) == 0 && len(a.Env) == 0 && len(a.Annotations) == 0 && len(a.CDIDevices) == 0 && len(a.Resources) == 0
}

// Validate returns an error that names the invalid field.
func (a Allocation) Validate() error {
	for i, d := range a.Devices {
		if err := checkPaths(fmt.Sprintf("devices[%d]", i), d.HostPath, d.ContainerPath); err != nil {
			return err
		}
		if d.Permissions == "" || strings.Trim(d.Permissions, "rwm") != "" {
			return fmt.Errorf("devices[%d].permissions is %q: it must be some of r, w and m", i, d.Permissions)
		}
	}
	for i, m := range a.Mounts {
		if err := checkPaths(fmt.Sprintf("mounts[%d]", i), m.HostPath, m.ContainerPath); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("env has %q, which is no name of a variable", name)
		}
	}
	for i, name := range a.CDIDevices {
		kind, device, _ := strings.Cut(name, "=")
		if vendor, class, ok := strings.Cut(kind, "/"); !ok || vendor == "" || class == "" || device == "" {
			return fmt.Errorf("cdiDevices[%d] is %q: it must be of the form vendor/class=name", i, name)
		}
	}
	return nil
}

func checkPaths(field, host, container string) error {
	for _, p := range []struct{ name, value string }{{"hostPath", host}, {"containerPath", container}} {
		if !path.IsAbs(p.value) || path.Clean(p.value) != p.value {
			return fmt.Errorf("%s.%s is %q: it must be an absolute path, and a clean one", field, p.name, p.value)
		}
	}
	return nil
}
