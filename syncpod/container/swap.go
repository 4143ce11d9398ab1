package container

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

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

// swapFile is the limit of swap in version 2 of cgroups.
const swapFile = "memory.swap.max"

// limitSwap adds the limit of swap to the resources of a container.
func (in *Input) limitSwap(c *v1.Container, r *runtimeapi.LinuxContainerResources) {
	switch {
	case in.Node.Swap.Behavior == "":
	case in.Node.Swap.CgroupV1:
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes // of memory and swap together
	default:
		if r.Unified == nil {
			r.Unified = map[string]string{}
		}
		r.Unified[swapFile] = strconv.FormatInt(in.swapBytes(c), 10)
	}
}

// swapBytes returns how much swap a container may use.
func (in *Input) swapBytes(c *v1.Container) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	none := in.Node.Swap.Behavior != LimitedSwap || runtime.IsCritical(in.Pod) || qos.Class(in.Pod) != v1.PodQOSBurstable
	if none || request.Cmp(*limit) == 0 || request.Sign() <= 0 || request.Value() > in.Node.MemoryBytes {
		return 0
	}
	return int64(float64(request.Value()) / float64(in.Node.MemoryBytes) * float64(in.Node.Swap.Bytes))
}
