package node_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/modules/cluster/node"
)

// Allocatable subtracts the reserved resources: half a CPU of 4, and 1 GiB of memory.
func ExampleAllocatable() {
	machine := node.Machine{CPUs: 4, MemoryBytes: 8 << 30}
	reserved := v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("1Gi")}

	allocatable := node.Allocatable(machine.Capacity(110), reserved)
	fmt.Println(allocatable.Cpu(), allocatable.Memory(), allocatable.Pods())
	// Output: 3500m 7Gi 110
}
