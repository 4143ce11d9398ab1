package container

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// swapFile is the swap limit in cgroups v2.
const swapFile = "memory.swap.max"

// limitSwap adds the swap limit to a container's resources.
func (in *Input) limitSwap(c *v1.Container, r *runtimeapi.LinuxContainerResources) {
	switch {
	case in.Node.Swap.Behavior == "":
	case in.Node.Swap.CgroupV1:
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes // for memory and swap together
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

// Swap determines how containers use the node's swap (KEP-2400). With the zero Swap the runtime decides.
type Swap struct {
	Behavior SwapBehavior
	// Bytes is the node's swap size, of which LimitedSwap gives each container a share.
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
