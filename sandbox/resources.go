package sandbox

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/linux"
	"github.com/podsync/podsync/internal/podresources"
)

// podAmounts adds up a pod's container resources, without its overhead.
func podAmounts(spec *v1.PodSpec) linux.Amounts {
	return linux.Amounts{
		CPURequest:  podresources.Total(spec, podresources.Requests, v1.ResourceCPU),
		CPULimit:    podresources.Total(spec, podresources.Limits, v1.ResourceCPU),
		MemoryLimit: podresources.Total(spec, podresources.Limits, v1.ResourceMemory),
	}
}
