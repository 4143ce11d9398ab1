package faults

import "time"

// Action is a fault in an event.
type Action uint8

const (
	// Drop loses the event.
	Drop Action = iota
	// Duplicate sends the event twice.
	Duplicate
	// Reorder sends the event after the next one.
	Reorder
	// Delay sends the event later by Event.Delay, with its original time and content.
	Delay
	// Timeless removes the time of the event.
	Timeless
	// Bare removes the statuses, as if the runtime could not read them.
	Bare
)

// An Event is a fault of events. A zero field matches all.
type Event struct {
	PodUID    string
	Container string // name; sandbox events have none
	// Skip is the number of matching events that pass first. Times is the number of events that the fault then applies to:
	// 0 means 1, Always all.
	Skip, Times int
	Action      Action
	Delay       time.Duration
}
