package linux

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	minShares = 2      // the kernel's minimum for cpu.shares
	maxShares = 262144 // and at most
	// minQuota is the shortest slice of a period, in microseconds, that the
	// kernel's bandwidth control accepts.
	minQuota      = 1000
	defaultPeriod = 100 * time.Millisecond
)

// CPUBandwidth determines how a node enforces limits of CPU time.
type CPUBandwidth struct {
	// Off means that CPU limits are not enforced.
	Off bool
	// Period is the length of an accounting period, 0 means 100 ms. The kernel's minimum is 1 ms;
	// shorter periods count as 1 ms.
	Period time.Duration
}

// Amounts are the resources of a cgroup. A nil quantity is unset.
type Amounts struct {
	CPURequest, CPULimit, MemoryLimit *resource.Quantity
}

// Resources returns the cgroup settings for amounts. An unset CPU request defaults to the limit, as
// in the API; a request of zero is zero.
func Resources(a Amounts, cpu CPUBandwidth) *runtimeapi.LinuxContainerResources {
	request := a.CPURequest
	if request == nil {
		request = a.CPULimit
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          shares(milli(request)),
		MemoryLimitInBytes: value(a.MemoryLimit),
	}
	if !cpu.Off {
		r.CpuPeriod = cpu.microseconds()
		r.CpuQuota = quota(milli(a.CPULimit), r.CpuPeriod)
	}
	return r
}

func (c CPUBandwidth) microseconds() int64 {
	if c.Period <= 0 {
		return defaultPeriod.Microseconds()
	}
	return max(c.Period, time.Millisecond).Microseconds()
}

// shares returns the relative weight of an amount in thousandths of a CPU; one CPU has 1024.
func shares(milliCPU int64) int64 {
	if milliCPU >= maxShares*1000/1024 {
		return maxShares
	}
	return max(milliCPU*1024/1000, minShares)
}

// quota returns the CPU time per period for a limit; 0, no limit, stays 0.
func quota(milliCPU, period int64) int64 {
	switch {
	case milliCPU <= 0:
		return 0
	case milliCPU > math.MaxInt64/period:
		return math.MaxInt64 / 1000
	}
	return max(milliCPU*period/1000, minQuota)
}

func milli(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.MilliValue()
}

func value(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.Value()
}
