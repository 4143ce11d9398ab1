package rotate_test

import (
	"fmt"
	"time"

	"github.com/podsync/podsync/runtime/logs/rotate"
)

// The steps for a container's log that has grown to 10 MiB.
func ExampleDecide() {
	steps, err := rotate.Decide("0.log", []rotate.File{
		{Name: "0.log", Size: 11 << 20, Regular: true},
		{Name: "0.log.20261122-080000.gz", Size: 1 << 20, Regular: true},
		{Name: "0.log.20261122-090000.gz", Size: 1 << 20, Regular: true},
		{Name: "0.log.20261122-100000.gz", Size: 1 << 20, Regular: true},
		{Name: "0.log.20261122-110000", Size: 10 << 20, Regular: true},
	}, rotate.Policy{}, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	for _, step := range steps {
		fmt.Println(step)
	}
	fmt.Println(err)
	// Output:
	// remove 0.log.20261122-080000.gz: there are enough newer ones
	// rename 0.log to 0.log.20261122-120000: it is full
	// reopen 0.log: it is full
	// compress 0.log.20261122-110000 to 0.log.20261122-110000.gz: it was rotated
	// <nil>
}
