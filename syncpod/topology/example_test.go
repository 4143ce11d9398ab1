package topology_test

import (
	"fmt"

	"github.com/podsync/podsync/syncpod/topology"
)

func ExampleMask() {
	m, err := topology.MaskOf(0, 1, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m, m.Count(), m.Has(1), topology.Hint{Nodes: m, Preferred: true})
	// Output:
	// 0-1,4 3 true 0-1,4 preferred
}

// The CPUs of a container fit on each NUMA node, and its device is close to the second one.
func ExamplePolicy_Merge() {
	policy, err := topology.New(topology.Config{Policy: topology.PolicySingleNUMANode}, topology.Machine{Nodes: 0b11})
	if err != nil {
		fmt.Println(err)
		return
	}
	cpus := topology.Hints{"cpu": {{Nodes: 0b01, Preferred: true}, {Nodes: 0b10, Preferred: true}, {Nodes: 0b11}}}
	gpu := topology.Hints{"example.com/gpu": {{Nodes: 0b10, Preferred: true}}}
	fmt.Println(policy.Merge(cpus, gpu).Hint)
	none := topology.Hints{"memory": {{Nodes: 0b11}}}
	refused := policy.Merge(cpus, gpu, none)
	fmt.Println(refused.Admitted, refused.Unaligned)
	// Output:
	// 1 preferred
	// false memory
}
