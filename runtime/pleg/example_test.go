package pleg_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/podsync/podsync/runtime/pleg"
)

// Health is a plain value. Here the inspection of one pod of the node fails.
func ExampleHealth() {
	now := time.Now()
	h := pleg.Health{At: now, Streaming: true, Pods: []pleg.ReadFailure{{UID: "web", Err: errors.New("input/output error"), Since: now.Add(-time.Minute)}}}
	fmt.Println(h.OK())
	fmt.Println(h)
	// Output:
	// false
	// pod web: cannot be read for 1m0s: input/output error
}
