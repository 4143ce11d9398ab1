package cgroup

import "github.com/podsync/podsync/internal/podresources"

// MilliCPUToShares returns the CPU shares for milli-CPUs: 1024 for one CPU, between the kernel's limits 2 and
// 262144. Container runtimes take shares for both versions of cgroups; see [SharesToWeight].
func MilliCPUToShares(milliCPU int64) int64 { return podresources.MilliCPUToShares(milliCPU) }

// MilliCPUToQuota returns the CPU time per period, both in microseconds, for a limit in milli-CPUs. A quota is not below
// the kernel's minimum, 1 ms. Limit 0 is no limit, and its quota is 0.
func MilliCPUToQuota(milliCPU, period int64) int64 {
	return podresources.MilliCPUToQuota(milliCPU, period)
}
