package sandboxconfig

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/base/linux"
)

// podAmounts returns what the containers of a pod need together, its overhead
// left out.
func podAmounts(spec *v1.PodSpec) linux.Amounts {
	return linux.Amounts{
		CPURequest:  linux.Total(spec, linux.Requests, v1.ResourceCPU),
		CPULimit:    linux.Total(spec, linux.Limits, v1.ResourceCPU),
		MemoryLimit: linux.Total(spec, linux.Limits, v1.ResourceMemory),
	}
}
