package container

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/linux"
	"github.com/podsync/podsync/internal/podresources"
)

func (in *Input) resources(c *v1.Container) (*runtimeapi.LinuxContainerResources, error) {
	r := linux.Resources(linux.Amounts{
		CPURequest:  named(c.Resources.Requests, v1.ResourceCPU),
		CPULimit:    in.limit(c, v1.ResourceCPU),
		MemoryLimit: in.limit(c, v1.ResourceMemory),
	}, podresources.CPUBandwidth{Off: in.Node.NoCPUQuota, Period: in.Node.CPUPeriod})
	r.CpusetCpus, r.CpusetMems = in.CPUSet.CPUs, in.CPUSet.Mems
	if in.CPUSet.Exclusive && !in.Node.NoCPUQuota {
		r.CpuQuota = -1
	}
	r.OomScoreAdj = oomScoreAdj(in.Pod, c, in.Node.MemoryBytes)
	if in.Node.GroupOOMKill {
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	in.limitSwap(c, r)
	var err error
	r.HugepageLimits, err = hugePages(&in.Node, c.Resources.Limits)
	return r, err
}

// limit returns the container's own limit or, without one, the pod's limit (KEP-2837): the process's effective
// limit.
func (in *Input) limit(c *v1.Container, name v1.ResourceName) *resource.Quantity {
	own := named(c.Resources.Limits, name)
	if in.Pod.Spec.Resources == nil || own != nil && !own.IsZero() {
		return own
	}
	return either(named(in.Pod.Spec.Resources.Limits, name), own)
}

func named(list v1.ResourceList, name v1.ResourceName) *resource.Quantity {
	if q, ok := list[name]; ok {
		return &q
	}
	return nil
}

// hugePages returns a limit for each page size on the node, in the node's order. Other sizes cannot be limited, and a
// container cannot use them.
func hugePages(n *Node, limits v1.ResourceList) ([]*runtimeapi.HugepageLimit, error) {
	var list []*runtimeapi.HugepageLimit
	for _, size := range n.HugePageSizes {
		bytes, err := pageBytes(size)
		if err != nil {
			return nil, err
		}
		limit := limits[v1.ResourceName(v1.ResourceHugePagesPrefix+bytes.String())]
		list = append(list, &runtimeapi.HugepageLimit{PageSize: size, Limit: uint64(max(limit.Value(), 0))})
	}
	return list, nil
}

// pageBytes parses the kernel's notation for a page size: "2MB" is 2 MiB.
func pageBytes(size string) (*resource.Quantity, error) {
	var number int64
	var unit string
	if _, err := fmt.Sscanf(size, "%d%s", &number, &unit); err != nil {
		return nil, fmt.Errorf("Input.Node.HugePageSizes: %q is not a size like 2MB", size)
	}
	shift, ok := map[string]int{"KB": 10, "MB": 20, "GB": 30}[unit]
	if !ok || number <= 0 {
		return nil, fmt.Errorf("Input.Node.HugePageSizes: %q is not a size like 2MB", size)
	}
	return resource.NewQuantity(number<<shift, resource.BinarySI), nil
}
