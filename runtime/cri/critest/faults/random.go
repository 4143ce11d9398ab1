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
	// Methods are the methods with faults; nil means all. The beginning of an event stream has none.
	Methods []journal.Method
	// MaxDelay is the maximum delay of a call with a fault. Default: 10 s.
	MaxDelay time.Duration
	// EventRate is the share of events that are dropped, doubled, delayed or
	// sent after the next one, between 0 and 1.
	EventRate float64
	// Latency is the maximum time that every call takes before it does anything, and every event
	// takes before it is sent; events stay in order. The seed determines each time. So hardly two
	// things happen at the same instant, and the order in which goroutines run has little effect. 0
	// means none.
	Latency time.Duration
}
