package linux

import (
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/podresources"
)

// Amounts are a cgroup's resources. A nil quantity is unset.
type Amounts struct {
	CPURequest, CPULimit, MemoryLimit *resource.Quantity
}

// Resources returns the cgroup settings for amounts. An unset CPU request defaults to the limit, as
// in the API; a request of zero is zero.
func Resources(a Amounts, bandwidth podresources.CPUBandwidth) *runtimeapi.LinuxContainerResources {
	cpu := podresources.CPUOf(a.CPURequest, a.CPULimit, bandwidth)
	return &runtimeapi.LinuxContainerResources{
		CpuShares: cpu.Shares, CpuQuota: cpu.Quota, CpuPeriod: cpu.Period,
		MemoryLimitInBytes: value(a.MemoryLimit),
	}
}

func value(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.Value()
}
