package eviction

import (
	"time"
)

// Policy configures evictions. The zero Policy is a kubelet's default. Amounts are quantities, such
// as 100Mi, or percentages for the capacity, such as 10%; 0% or 100% means no threshold.
type Policy struct {
	// Hard are the thresholds for which pods are evicted immediately (evictionHard). Default, if
	// nil: memory.available 100Mi, nodefs.available 10%, nodefs.inodesFree 5%, imagefs.available
	// 15%, imagefs.inodesFree 5%. A non-nil map replaces all these.
	Hard map[Signal]string
	// Soft are thresholds that must be met for a grace period before pods are evicted
	// (evictionSoft). SoftGracePeriod has each one's grace period (evictionSoftGracePeriod).
	Soft            map[Signal]string
	SoftGracePeriod map[Signal]time.Duration
	// MinimumReclaim is how much more than a threshold must be available after an eviction for it
	// (evictionMinimumReclaim). Default: nothing.
	MinimumReclaim map[Signal]string
	// PressureTransitionPeriod is how long a pressure is reported after it was last observed
	// (evictionPressureTransitionPeriod). Default 5 min.
	PressureTransitionPeriod time.Duration
	// MaxPodGracePeriod limits the grace period for a pod that is evicted for a soft
	// threshold (evictionMaxPodGracePeriod), in whole seconds. Default, and minimum, 1 s.
	MaxPodGracePeriod time.Duration
	// IgnoreStorageLimits disables evictions for pods that exceed emptyDir.sizeLimit or their
	// ephemeral-storage limits.
	IgnoreStorageLimits bool
	// Interval is the interval at which the node is observed. Default 10 s.
	Interval time.Duration
}

// DefaultHard returns Policy.Hard's default value.
func DefaultHard() map[Signal]string {
	return map[Signal]string{
		MemoryAvailable: "100Mi", NodeFSAvailable: "10%", NodeFSInodesFree: "5%", ImageFSAvailable: "15%", ImageFSInodesFree: "5%",
	}
}

// A Signal is a measured node quantity, named as in the kubelet's configuration.
type Signal string

// The signals, by precedence: memory comes first.
const (
	// MemoryAvailable is memory outside all working sets.
	MemoryAvailable Signal = "memory.available"
	// AllocatableMemoryAvailable is memory below the limit for the cgroup with all pods, outside their working sets. It
	// is unknown if the agent does not limit that cgroup.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	// NodeFSAvailable and NodeFSInodesFree are for the file system with the agent's
	// directories.
	NodeFSAvailable  Signal = "nodefs.available"
	NodeFSInodesFree Signal = "nodefs.inodesFree"
	// ImageFSAvailable and ImageFSInodesFree are for the file system with
	// images.
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	// ContainerFSAvailable and ContainerFSInodesFree measure the file system with the containers'
	// writable layers. It is either the node's or the images' file system, so that one's thresholds
	// also apply. A kubelet does not accept thresholds for these signals; a Policy does.
	ContainerFSAvailable  Signal = "containerfs.available"
	ContainerFSInodesFree Signal = "containerfs.inodesFree"
	// PIDAvailable counts the further processes and threads that can be started.
	PIDAvailable Signal = "pid.available"
)

// Single pods' signals: one own limit is exceeded.
const (
	EmptyDirLimit  Signal = "emptydirfs.limit"
	PodLimit       Signal = "ephemeralpodfs.limit"
	ContainerLimit Signal = "ephemeralcontainerfs.limit"
)
