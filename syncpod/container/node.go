package container

import "time"

// Node holds the settings that are common to all containers of a node.
type Node struct {
	// MemoryBytes is the node's memory, required: the OOM score of a container depends on its share
	// of it.
	MemoryBytes int64
	// NoCPUQuota turns the enforcement of CPU limits off.
	NoCPUQuota bool
	// CPUPeriod is the accounting period of CPU limits, 0 means 100 ms.
	CPUPeriod time.Duration
	// GroupOOMKill has all processes in a container killed together when memory
	// runs out, as a kubelet does by default on cgroup v2. It must be off on v1.
	GroupOOMKill bool
	// Swap determines how containers use the node's swap. Default: the runtime decides.
	Swap Swap
	// HugePageSizes are the sizes of huge pages that the node's kernel supports, as in the names of
	// cgroup files ("2MB", "1GB"). A container gets a limit for each size: that of its spec, or 0.
	HugePageSizes []string

	// SeccompRoot is the directory of seccomp profiles, "" means
	// DefaultSeccompRoot.
	SeccompRoot string
	// SeccompDefault gives containers without a seccomp profile the runtime's default profile
	// instead of none.
	SeccompDefault bool
	// MaskedPaths are masked in addition to the default ones, unless the container's procMount is
	// Unmasked: paths that differ between nodes, such as the thermal_throttle directory of each
	// CPU.
	MaskedPaths []string
}

// DefaultSeccompRoot is the default directory for seccomp profiles of the node's administrator.
const DefaultSeccompRoot = "/var/lib/kubelet/seccomp"
