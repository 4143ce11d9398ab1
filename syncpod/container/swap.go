package container

// Swap is how containers use the swap of the node (KEP-2400). With the zero Swap the runtime decides.
type Swap struct {
	Behavior SwapBehavior
	// Bytes is the size of the swap of the node. It counts for LimitedSwap.
	Bytes int64
	// CgroupV1 means that the node has version 1 of cgroups. Containers with a memory limit then do not swap beyond it, and
	// other containers cannot be limited: the node must have no swap if no container may use it.
	CgroupV1 bool
}

// SwapBehavior is which containers may swap, by the names of a kubelet.
type SwapBehavior string

const (
	// NoSwap lets no container swap.
	NoSwap SwapBehavior = "NoSwap"
	// LimitedSwap gives each container of a Burstable pod the share of the swap that its memory request is of the memory of the
	// node. No other container swaps, nor does one whose request is its limit, or one of a critical pod.
	LimitedSwap SwapBehavior = "LimitedSwap"
)
