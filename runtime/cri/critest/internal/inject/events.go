package inject

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// An Event is an event with the time at which it is due: now, unless a fault delays it.
type Event struct {
	Due time.Time
	Msg *runtimeapi.ContainerEventResponse
}

// A Subject is the container or sandbox of an event.
type Subject struct {
	PodUID, Container string
	Attempt           uint32
}

// Events has event faults. Its methods may be called concurrently.
type Events struct {
	mu       sync.Mutex
	injected []eventFault
	held     []Event   // reordered events wait for the next one
	last     time.Time // when the last event was due
	random   *chance
}

type eventFault struct {
	*injected
	fault faults.Event
}

func (f *eventFault) matches(who Subject) bool {
	return (f.fault.PodUID == "" || f.fault.PodUID == who.PodUID) && (f.fault.Container == "" || f.fault.Container == who.Container)
}

// Inject injects a fault, for all streams.
func (e *Events) Inject(f faults.Event) (faults.Injected, error) {
	switch {
	case f.Action > faults.Bare:
		return nil, fmt.Errorf("critest: Event.Action: unknown action %d", f.Action)
	case (f.Action == faults.Delay) != (f.Delay > 0):
		return nil, errors.New("critest: Event.Delay belongs to the action Delay, and is positive")
	}
	i, err := newInjected("Event", f.Skip, f.Times)
	if err != nil {
		return nil, err
	}
	i.mu, i.dropUsed = &e.mu, e.dropUsed
	e.mu.Lock()
	defer e.mu.Unlock()
	e.injected = append(e.injected, eventFault{i, f})
	return i, nil
}

// dropUsed must be called with mu held.
func (e *Events) dropUsed() {
	e.injected = slices.DeleteFunc(e.injected, func(f eventFault) bool { return f.used() })
}

// Apply returns the events that the streams receive in place of an event: none, the event itself, or several. If several
// faults match, only the earliest that is not used up applies.
func (e *Events) Apply(event Event, who Subject) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := e.held
	e.held = nil
	f, lag := e.strike(event.Msg.GetContainerEventType(), who)
	if event.Due = event.Due.Add(lag); event.Due.Before(e.last) {
		event.Due = e.last // a delay alone does not reorder
	}
	e.last = event.Due
	if f == nil {
		return append([]Event{event}, waiting...)
	}
	switch f.Action {
	case faults.Drop:
		return waiting
	case faults.Duplicate:
		again := Event{Due: event.Due, Msg: proto.CloneOf(event.Msg)}
		return append([]Event{event, again}, waiting...)
	case faults.Reorder:
		e.held = append(e.held, event)
		return waiting
	case faults.Delay:
		event.Due = event.Due.Add(f.Delay)
	case faults.Timeless:
		event.Msg.CreatedAt = 0
	case faults.Bare:
		event.Msg.PodSandboxStatus, event.Msg.ContainersStatuses = nil, nil
	}
	return append([]Event{event}, waiting...)
}

// strike must be called with mu held.
func (e *Events) strike(t runtimeapi.ContainerEventType, who Subject) (*faults.Event, time.Duration) {
	rng, lag := e.random.event(t, who)
	for _, i := range e.injected {
		if i.matches(who) && i.strike() {
			return &i.fault, lag
		}
	}
	return e.random.eventFault(rng), lag
}
