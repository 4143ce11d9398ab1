package sandbox

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/linux"
)

// podAmounts returns the sum of the resources of a pod's containers, without its overhead.
func podAmounts(spec *v1.PodSpec) linux.Amounts {
	return linux.Amounts{
		CPURequest:  linux.Total(spec, linux.Requests, v1.ResourceCPU),
		CPULimit:    linux.Total(spec, linux.Limits, v1.ResourceCPU),
		MemoryLimit: linux.Total(spec, linux.Limits, v1.ResourceMemory),
	}
}
