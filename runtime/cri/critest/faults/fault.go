package faults

import (
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// Match chooses calls. A zero field matches every call.
type Match struct {
	Method    journal.Method
	PodUID    string
	Container string // name
	ID        string // of the container or sandbox
	Image     string // as the call has it
	// If is called last, with the call as it begins. It must not call methods of the Runtime.
	If func(journal.Call) bool
}

// When is the moment of a call at which a fault applies.
type When uint8

const (
	// Before it has had any effect.
	Before When = iota
	// Midway: the name is reserved, nothing is to be seen yet, as when a
	// runtime waits for a network plugin or a registry. RunPodSandbox,
	// CreateContainer, StartContainer and PullImage have such a moment; for
	// all other methods it is Before. A call that ends here with an error
	// undoes its reservation.
	Midway
	// After its whole effect. If the call failed by itself, nothing strikes.
	After
)

// Always applies a fault as often as it matches.
const Always = -1

// Never means that the address does not appear by itself.
const Never = time.Duration(1<<63 - 1)

// A Fault is a fault of calls. Its parts apply in the order of the fields; zero parts do not apply.
type Fault struct {
	Match Match
	// Skip is the number of matching calls that pass first. Times is the number of calls that the fault then applies to:
	// 0 means 1, Always all.
	Skip, Times int
	When        When
	// Delay is the time that the call waits; with Hang it also waits until the gate opens.
	Delay time.Duration
	Hang  *Gate
	// IgnoreCancel makes the call ignore the end of its context: after Delay and Hang it succeeds
	// late, without a caller. Without it the call fails when its context ends, and a half-done
	// effect is undone.
	IgnoreCancel bool
	// Err is the response, a status error. It ends the call.
	Err error
	// IPAfter makes the address of a RunPodSandbox's sandbox appear so much
	// later than its READY state; Never waits for EditSandbox.
	IPAfter time.Duration
	// IgnoreSignals describes which signals the container of a CreateContainer ignores.
	IgnoreSignals IgnoreSignals
}

// IgnoreSignals describes which signals a container ignores. A process that ignores only SIGTERM needs none of it: its
// command can do that.
type IgnoreSignals struct {
	// Term means that the stop signal does not reach it.
	Term bool
	// Kill means that SIGKILL does not either, as of a process in
	// uninterruptible sleep: StopContainer does not return before its caller
	// gives up. The signal is delivered when Kill is cleared.
	Kill bool
	// FirstStopOnly means that a stop which comes while another is under way
	// waits for that one, and its own timeout counts for nothing.
	FirstStopOnly bool
}

// Injected is a fault in force, on calls or on events. Its methods may be called concurrently.
type Injected interface {
	// Hits returns how many calls or events the fault has met.
	Hits() int
	// Remove removes the fault. Calls that it has met continue as they are.
	Remove()
}
