package cgroup_test

import (
	"fmt"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// A tree.Slices receives the settings of each slice. Missing ones are not limited.
func ExampleResources() {
	r := cgroup.Resources{CPUShares: 512, Memory: new(int64(64 << 20))}
	fmt.Println("half a CPU:", r.CPUShares)
	fmt.Println("MiB of memory:", *r.Memory>>20)
	fmt.Println("processes are limited:", r.PIDs != nil)
	// Output:
	// half a CPU: 512
	// MiB of memory: 64
	// processes are limited: false
}
