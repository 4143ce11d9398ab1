//go:build linux

package mounts_test

import (
	"fmt"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// Before an agent deletes a directory, it asks whether something is mounted there.
func ExampleAt() {
	fmt.Println(mounts.At("/proc"))
	// Output: true <nil>
}
