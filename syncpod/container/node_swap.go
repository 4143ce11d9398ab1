package container

// Swap determines how containers use the node's swap (KEP-2400). With the zero Swap the runtime decides.
type Swap struct {
	Behavior SwapBehavior
	// Bytes is the node's swap size. It counts for LimitedSwap.
	Bytes int64
	// CgroupV1 means that the node has cgroups v1. Containers with a memory limit then do not swap beyond it, and other
	// containers cannot be limited: the node must have no swap if no container may use it.
	CgroupV1 bool
}

// SwapBehavior determines which containers may swap. The values are a kubelet's.
type SwapBehavior string

const (
	// NoSwap lets no container swap.
	NoSwap SwapBehavior = "NoSwap"
	// LimitedSwap limits the swap of each container in a Burstable pod: its share of the node's swap equals its memory
	// request's share in the node's memory. Other containers do not swap, and neither do containers whose request equals
	// their limit, and critical pods' containers.
	LimitedSwap SwapBehavior = "LimitedSwap"
)
