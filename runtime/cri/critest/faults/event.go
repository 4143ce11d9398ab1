package faults

import "time"

// Action is a fault in an event.
type Action uint8

const (
	// Drop loses it.
	Drop Action = iota
	// Duplicate sends it twice.
	Duplicate
	// Reorder sends it after the next event.
	Reorder
	// Delay sends it later by Event.Delay, with its original time and content.
	Delay
	// Timeless takes its time away.
	Timeless
	// Bare takes the statuses away, as a runtime that could not read them.
	Bare
)

// Event selects events and a fault. A zero field matches all.
type Event struct {
	PodUID    string
	Container string // name; events of sandboxes have none
	// Skip lets so many matching events pass, Times strikes so many: 0 is one,
	// Always is all.
	Skip, Times int
	Action      Action
	Delay       time.Duration
}
