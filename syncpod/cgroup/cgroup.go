package cgroup

import (
	"errors"

	"github.com/podsync/podsync/internal/podresources"
)

// DefaultRoot names the cgroup that contains all a kubelet's pods.
const DefaultRoot = "kubepods"

// Driver is the component that manages a node's cgroups, which determines their names. The agent
// and the runtime must use the same driver.
type Driver string

// The drivers.
const (
	// Cgroupfs: the agent and the runtime write to the kernel's files directly.
	Cgroupfs Driver = "cgroupfs"
	// Systemd: each cgroup is a systemd slice or scope.
	Systemd Driver = "systemd"
)

// Version is the kernel's cgroup interface version.
type Version int

// The versions.
const (
	// V1 has a tree for each controller.
	V1 Version = 1
	// V2 has one tree.
	V2 Version = 2
)

// ErrMemoryInUse means that a memory limit is below the memory in use: the kernel would kill processes to
// enforce it.
var ErrMemoryInUse = errors.New("the memory limit is below what is in use")

// Resources are one cgroup's settings. A resource that is nil, or missing in a map, has no limit.
type Resources struct {
	// CPUShares is the weight among one level's cgroups, 2 to 262144, in the interface's version 1
	// unit: 1024 for each CPU. 0 leaves the weight unchanged.
	CPUShares int64
	// CPUQuota is the CPU time in each period, in microseconds: -1 if CPU limits are not enforced,
	// 0 for a zero limit, which does not limit. CPUPeriod is the length of a period, in
	// microseconds. Either both are nil or neither.
	CPUQuota, CPUPeriod *int64
	// Memory is the limit in bytes. 0 is a zero limit, which the kernel does not enforce.
	Memory *int64
	// HugePages are limits in bytes by a page's size in bytes.
	HugePages map[int64]int64
	// PIDs limits the processes and threads.
	PIDs *int64
	// Unified are further version 2 files by name, such as memory.min.
	Unified map[string]string
}

// MilliCPUToShares returns the CPU shares for milli-CPUs: 1024 for one CPU, between the kernel's limits 2 and
// 262144. Container runtimes take shares for both versions of cgroups; see [SharesToWeight].
func MilliCPUToShares(milliCPU int64) int64 { return podresources.MilliCPUToShares(milliCPU) }

// MilliCPUToQuota returns the CPU time per period, both in microseconds, for a limit in milli-CPUs. A quota is not below
// the kernel's minimum, 1 ms. Limit 0 is no limit, and its quota is 0.
func MilliCPUToQuota(milliCPU, period int64) int64 {
	return podresources.MilliCPUToQuota(milliCPU, period)
}
