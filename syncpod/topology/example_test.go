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
