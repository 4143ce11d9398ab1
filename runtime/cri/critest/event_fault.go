package critest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// EventAction is a fault in an event.
type EventAction uint8

const (
	// EventDrop loses it.
	EventDrop EventAction = iota
	// EventDuplicate sends it twice.
	EventDuplicate
	// EventReorder sends it after the next event.
	EventReorder
	// EventDelay sends it later by EventFault.Delay, with its original time and content.
	EventDelay
	// EventTimeless takes its time away.
	EventTimeless
	// EventBare takes the statuses away, as a runtime that could not read them.
	EventBare
)

// EventFault selects events and a fault. A zero field matches all.
type EventFault struct {
	PodUID    string
	Container string // name; events of sandboxes have none
	eventType *runtimeapi.ContainerEventType
	// Skip lets so many matching events pass, Times strikes so many: 0 is one,
	// Always is all.
	Skip, Times int
	Action      EventAction
	Delay       time.Duration
}

func (f EventFault) matches(e event, who subject) bool {
	return (f.PodUID == "" || f.PodUID == who.uid) &&
		(f.Container == "" || f.Container == who.container) &&
		(f.eventType == nil || *f.eventType == e.msg.GetContainerEventType())
}

// InjectEvent puts an event fault in force, for all streams. Where several
// match an event, the one injected first and not yet used up strikes.
func (r *Runtime) InjectEvent(f EventFault) (*Injected, error) {
	switch {
	case f.Action > EventBare:
		return nil, fmt.Errorf("critest: EventFault.Action: unknown action %d", f.Action)
	case (f.Action == EventDelay) != (f.Delay > 0):
		return nil, errors.New("critest: EventFault.Delay goes with EventDelay, and is positive")
	}
	i, err := newInjected("EventFault", f.Skip, f.Times)
	if err != nil {
		return nil, err
	}
	i.mu, i.dropUsed = &r.events.mu, r.events.dropUsed
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.faults = append(r.events.faults, injectedEventFault{i, f})
	return i, nil
}

// dropUsed must be called with mu held.
func (b *broker) dropUsed() { b.faults = slices.DeleteFunc(b.faults, injectedEventFault.used) }

type injectedEventFault struct {
	*Injected
	fault EventFault
}

// DisconnectEvents breaks all event streams with an error, for example
// status.Error(codes.Unavailable, "transport is closing").
func (r *Runtime) DisconnectEvents(err error) {
	if err == nil {
		err = errAway
	}
	r.events.disconnect(err)
}

// afflict returns what becomes of an event: nothing, itself, or more. It must
// be called with mu held.
func (b *broker) afflict(e event, who subject) []event {
	waiting := b.held
	b.held = nil
	f, lag := b.strike(e, who)
	if e.due = e.due.Add(lag); e.due.Before(b.last) {
		e.due = b.last // a delay alone does not reorder
	}
	b.last = e.due
	if f == nil {
		return append([]event{e}, waiting...)
	}
	switch f.Action {
	case EventDrop:
		return waiting
	case EventDuplicate:
		again := event{due: e.due, msg: proto.CloneOf(e.msg)}
		return append([]event{e, again}, waiting...)
	case EventReorder:
		b.held = append(b.held, e)
		return waiting
	case EventDelay:
		e.due = e.due.Add(f.Delay)
	case EventTimeless:
		e.msg.CreatedAt = 0
	case EventBare:
		e.msg.PodSandboxStatus, e.msg.ContainersStatuses = nil, nil
	}
	return append([]event{e}, waiting...)
}

func (b *broker) strike(e event, who subject) (*EventFault, time.Duration) {
	rng, lag := b.random.event(e.msg.GetContainerEventType(), who)
	for _, i := range b.faults {
		if i.fault.matches(e, who) && i.strike() {
			return &i.fault, lag
		}
	}
	return b.random.eventFault(rng), lag
}
