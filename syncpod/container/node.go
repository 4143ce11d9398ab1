package container

import "time"

// Node holds the settings that are common to all containers on a node.
type Node struct {
	// MemoryBytes is the node's memory, required: a container's OOM score depends on its share of
	// it.
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
	// HugePageSizes are the huge page sizes that the node's kernel supports, as in cgroup file
	// names ("2MB", "1GB"). A container gets a limit for each size: that in its spec, or 0.
	HugePageSizes []string

	// SeccompRoot is the directory with seccomp profiles, "" means
	// DefaultSeccompRoot.
	SeccompRoot string
	// SeccompDefault gives containers without a seccomp profile the runtime's default
	// profile, not none.
	SeccompDefault bool
	// MaskedPaths are masked in addition to the default ones, unless the container's procMount is
	// Unmasked: paths that differ between nodes, such as each CPU's thermal_throttle directory.
	MaskedPaths []string
}

// DefaultSeccompRoot is the default directory for the node administrator's seccomp profiles.
const DefaultSeccompRoot = "/var/lib/kubelet/seccomp"
