package eviction

import "time"

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
