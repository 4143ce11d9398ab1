package pleg_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/podsync/podsync/runtime/pleg"
)

// A Health is a value: this one is of a node on which the inspection of a pod fails.
func ExampleHealth() {
	now := time.Now()
	h := pleg.Health{At: now, Streaming: true, Pods: []pleg.ReadFailure{{UID: "web", Err: errors.New("input/output error"), Since: now.Add(-time.Minute)}}}
	fmt.Println(h.OK())
	fmt.Println(h)
	// Output:
	// false
	// pod web: cannot be read for 1m0s: input/output error
}
