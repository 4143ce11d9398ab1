package podresources

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
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

// CPU is the CPU time of a cgroup: its weight, and the time in microseconds that it has in each period. A Quota of 0 is no
// limit.
type CPU struct {
	Shares, Quota, Period int64
}

// CPUOf returns the CPU time for a request and a limit. An unset request defaults to the limit, as in the API; a request
// of zero is zero.
func CPUOf(request, limit *resource.Quantity, b CPUBandwidth) CPU {
	if request == nil {
		request = limit
	}
	cpu := CPU{Shares: MilliCPUToShares(milli(request))}
	if !b.Off {
		cpu.Period = b.microseconds()
		cpu.Quota = MilliCPUToQuota(milli(limit), cpu.Period)
	}
	return cpu
}

// MilliCPUToShares returns the relative weight of an amount in thousandths of a CPU; one CPU has 1024.
func MilliCPUToShares(milliCPU int64) int64 {
	if milliCPU >= maxShares*1000/1024 {
		return maxShares
	}
	return max(milliCPU*1024/1000, minShares)
}

// MilliCPUToQuota returns the CPU time per period, both in microseconds, for a limit in thousandths of a CPU; 0, no
// limit, stays 0. A period of 0 is the default, 100 ms.
func MilliCPUToQuota(milliCPU, period int64) int64 {
	if period <= 0 {
		period = defaultPeriod.Microseconds()
	}
	switch {
	case milliCPU <= 0:
		return 0
	case milliCPU > math.MaxInt64/period:
		return math.MaxInt64 / 1000
	}
	return max(milliCPU*period/1000, minQuota)
}

func (c CPUBandwidth) microseconds() int64 {
	if c.Period <= 0 {
		return defaultPeriod.Microseconds()
	}
	return max(c.Period, time.Millisecond).Microseconds()
}

func milli(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.MilliValue()
}
