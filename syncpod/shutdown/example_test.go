package shutdown_test

import (
	"fmt"
	"time"

	"github.com/podsync/podsync/syncpod/shutdown"
)

// The last ten of thirty seconds are for critical pods.
func ExamplePolicy() {
	policy := shutdown.Policy{GracePeriod: 30 * time.Second, CriticalGracePeriod: 10 * time.Second}
	if err := policy.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	for _, group := range policy.Periods() {
		fmt.Printf("priority %d and higher: %v\n", group.Priority, group.GracePeriod)
	}
	fmt.Println("in total:", policy.Total())
	// Output:
	// priority 0 and higher: 20s
	// priority 2000000000 and higher: 10s
	// in total: 30s
}
