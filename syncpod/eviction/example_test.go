package eviction_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podsync/podsync/syncpod/eviction"
)

// A policy with the thresholds of a kubelet, and more memory in reserve.
func Example() {
	policy := eviction.Policy{Hard: eviction.DefaultHard()}
	policy.Hard[eviction.MemoryAvailable] = "500Mi"
	for _, signal := range slices.Sorted(maps.Keys(policy.Hard)) {
		fmt.Println(signal, policy.Hard[signal])
	}
	// Output:
	// imagefs.available 15%
	// imagefs.inodesFree 5%
	// memory.available 500Mi
	// nodefs.available 10%
	// nodefs.inodesFree 5%
}
