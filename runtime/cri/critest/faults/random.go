package faults

import (
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// Random makes a runtime unreliable from a seed. A fault depends on the seed, on the subject of the
// call and on the number of such calls, not on the order of goroutines: the same agent meets the
// same faults in every run.
type Random struct {
	Seed uint64
	// Rate is the share of calls with a fault, between 0 and 1.
	Rate float64
	// Methods can be struck; nil means all. Event streams begin undisturbed.
	Methods []journal.Method
	// MaxDelay bounds the time a struck call takes. Default: 10 s.
	MaxDelay time.Duration
	// EventRate is the share of events that are dropped, doubled, delayed or
	// sent after the next one, between 0 and 1.
	EventRate float64
	// Latency bounds the time that every call takes before it does anything, and
	// every event before it is sent; events stay in order. Each takes a time of its own,
	// from the seed: so hardly two things happen in the same instant, and in what order
	// goroutines run decides little. 0 is none.
	Latency time.Duration
}
