package runtime

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
)

// ContainerResources are the resources in force in a running container, in the
// terms of its spec: those it was created with or last resized to. A runtime
// reports them rounded to what its cgroups can hold, so they come from whoever
// set them. Zero is none.
type ContainerResources struct {
	// CPURequest and CPULimit are in thousandths of a CPU.
	CPURequest int64 `json:"cpuRequest,omitempty"`
	CPULimit   int64 `json:"cpuLimit,omitempty"`
	// MemoryRequest and MemoryLimit are in bytes.
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}

// ResourcesOf returns what a container of a pod is made with. Where it has no limit of its own
// that of the pod as a whole holds for it (KEP-2837).
func ResourcesOf(pod *v1.PodSpec, c *v1.Container) ContainerResources {
	whole := &v1.ResourceRequirements{}
	if pod.Resources != nil {
		whole = pod.Resources
	}
	return ContainerResources{
		CPURequest: c.Resources.Requests.Cpu().MilliValue(), MemoryRequest: c.Resources.Requests.Memory().Value(),
		CPULimit:    cmp.Or(c.Resources.Limits.Cpu().MilliValue(), whole.Limits.Cpu().MilliValue()),
		MemoryLimit: cmp.Or(c.Resources.Limits.Memory().Value(), whole.Limits.Memory().Value()),
	}
}

// ReportedResources are what a runtime reads off a container's cgroup, rounded as
// that holds it. What is nil was not reported.
type ReportedResources struct {
	// CPURequest and CPULimit are in thousandths of a CPU.
	CPURequest *int64 `json:"cpuRequest,omitempty"`
	CPULimit   *int64 `json:"cpuLimit,omitempty"`
	// MemoryRequest and MemoryLimit are in bytes.
	MemoryRequest *int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   *int64 `json:"memoryLimit,omitempty"`
}
