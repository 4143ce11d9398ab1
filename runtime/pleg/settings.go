package pleg

import "time"

// Settings configures how an agent detects changes in its runtime. A zero field means its default.
type Settings struct {
	// EventRelist is the time between full lists while the runtime streams events.
	// Default 5 min.
	EventRelist time.Duration
	// Observer observes lists and inspections. Default: none.
	Observer Observer
}
