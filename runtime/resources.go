package runtime

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
)

// ContainerResources are a running container's resources as its spec states them: those it was
// created with or last resized to. The component that sets them records them, because a runtime
// reports values rounded to the cgroup precision. Zero means none.
type ContainerResources struct {
	// CPURequest and CPULimit are in milli-CPUs.
	CPURequest int64 `json:"cpuRequest,omitempty"`
	CPULimit   int64 `json:"cpuLimit,omitempty"`
	// MemoryRequest and MemoryLimit are in bytes.
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}

// ResourcesOf returns the resources with which a pod's container is created. If the container has no
// limit of its own, the limit for the pod applies (KEP-2837), if pod is not nil. A nil container has no resources.
func ResourcesOf(pod *v1.PodSpec, c *v1.Container) ContainerResources {
	if c == nil {
		return ContainerResources{}
	}
	whole := &v1.ResourceRequirements{}
	if pod != nil && pod.Resources != nil {
		whole = pod.Resources
	}
	return ContainerResources{
		CPURequest: c.Resources.Requests.Cpu().MilliValue(), MemoryRequest: c.Resources.Requests.Memory().Value(),
		CPULimit:    cmp.Or(c.Resources.Limits.Cpu().MilliValue(), whole.Limits.Cpu().MilliValue()),
		MemoryLimit: cmp.Or(c.Resources.Limits.Memory().Value(), whole.Limits.Memory().Value()),
	}
}

// A CPUSet determines on which CPUs and with which memory a container runs. Like ContainerResources, it is recorded by the
// component that sets it. The zero CPUSet restricts nothing.
type CPUSet struct {
	// CPUs and Mems are lists of CPUs and of NUMA nodes in the form of the kernel's files cpuset.cpus and cpuset.mems, such as
	// "0-3,8". Empty means all.
	CPUs string `json:"cpus,omitempty"`
	Mems string `json:"mems,omitempty"`
	// Exclusive means that no container of another pod runs on these CPUs. The container then has no CPU quota, as in a kubelet.
	Exclusive bool `json:"exclusive,omitempty"`
}

// ReportedResources are the resources that a runtime reads from a container's cgroup, rounded to
// the cgroup precision. Nil means that the runtime did not report the value.
type ReportedResources struct {
	// CPURequest and CPULimit are in milli-CPUs.
	CPURequest *int64 `json:"cpuRequest,omitempty"`
	CPULimit   *int64 `json:"cpuLimit,omitempty"`
	// MemoryRequest and MemoryLimit are in bytes.
	MemoryRequest *int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   *int64 `json:"memoryLimit,omitempty"`
}
