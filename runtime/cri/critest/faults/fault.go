package faults

import (
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// Match selects calls. A zero field matches every call.
type Match struct {
	Method    journal.Method
	PodUID    string
	Container string // name
	ID        string // the ID of the container or sandbox
	Image     string // as the request names it
	// If is checked last. It gets the call as it is at its beginning, and must not call methods of the Runtime.
	If func(journal.Call) bool
}

// When is the point of a call at which a fault applies.
type When uint8

const (
	// Before: the call has had no effect yet.
	Before When = iota
	// Midway: the name is reserved but no object is visible yet, as while a runtime waits for a
	// network plugin or a registry. RunPodSandbox, CreateContainer, StartContainer and PullImage
	// have such a point; for all other methods Midway is Before. A call that fails here releases
	// its reservation.
	Midway
	// After: the call has had its whole effect. If the call itself failed, the fault does not apply.
	After
)

// Always, as Times, applies a fault to every match.
const Always = -1

// Never, as IPAfter, means that the address does not appear by itself.
const Never = time.Duration(1<<63 - 1)

// A Fault is a fault of calls. Its parts apply in the fields' order; zero fields do nothing.
type Fault struct {
	Match Match
	// Skip is the number of matching calls that pass first. Times is the number of calls that the fault then applies to:
	// 0 means 1, Always all.
	Skip, Times int
	When        When
	// Delay is how long the call waits. With Hang it then also waits until the gate opens.
	Delay time.Duration
	Hang  *Gate
	// IgnoreCancel makes the call ignore its context's end: after Delay and Hang it succeeds late,
	// without a caller. Without IgnoreCancel the call fails when its context ends, and undoes a
	// half-done effect.
	IgnoreCancel bool
	// Err is the response, a gRPC status error. It ends the call.
	Err error
	// IPAfter is the time from the READY state of a RunPodSandbox's sandbox until its address
	// appears. With Never it appears only through EditSandbox.
	IPAfter time.Duration
	// IgnoreSignals describes which signals the container of a CreateContainer ignores.
	IgnoreSignals IgnoreSignals
}

// IgnoreSignals describes which signals a container ignores. It is not needed for a process that ignores only SIGTERM,
// because a command can do that by itself.
type IgnoreSignals struct {
	// Term means that the process ignores the stop signal.
	Term bool
	// Kill means that the process ignores SIGKILL, like a process in uninterruptible sleep:
	// StopContainer does not return before its context ends. The signal is delivered when Kill is
	// cleared.
	Kill bool
	// FirstStopOnly means that a second stop waits for the first one, and its own timeout has no
	// effect.
	FirstStopOnly bool
}

// Injected is an injected fault, of calls or of events. Its methods may be called concurrently.
type Injected interface {
	// Hits returns the number of calls or events that the fault was applied to.
	Hits() int
	// Remove removes the fault. Calls that it was applied to continue as they are.
	Remove()
}
