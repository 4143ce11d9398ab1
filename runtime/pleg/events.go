package pleg

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// EventStreamer streams container events. A *cri.Client implements it.
type EventStreamer interface {
	GetContainerEvents(context.Context, *runtimeapi.GetEventsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error)
}

// EventType is how a change affects a container or sandbox.
type EventType uint8

// The event types, as in CRI.
const (
	EventCreated EventType = iota
	EventStarted
	EventStopped
	EventDeleted
)

// String returns the type in one lower-case word.
func (t EventType) String() string {
	switch t {
	case EventCreated:
		return "created"
	case EventStarted:
		return "started"
	case EventStopped:
		return "stopped"
	case EventDeleted:
		return "deleted"
	}
	return "unknown"
}

// Event reports that something happened in a pod. It is only a hint to inspect the pod: runtimes
// drop, repeat, delay and reorder events, containerd keeps unread ones for the next stream, and a
// container's state in an event may be outdated (kubernetes #121003, KEP-3386). It therefore
// carries no status.
type Event struct {
	// PodUID is empty if the runtime did not report the pod: then ContainerID must be known already,
	// or all pods must be inspected.
	PodUID types.UID
	// ContainerID is the container's or, for a sandbox's own events, the sandbox's
	// identifier.
	ContainerID string
	Type        EventType
}

// EventHandler receives a stream's events, all from one goroutine.
//
// A call blocks the stream, and a runtime may end a stream that is not read, so a handler must not
// block. It should record, for each pod, that an inspection is needed: later records replace
// earlier ones, and no queue can overflow.
type EventHandler interface {
	// StreamOpened is called when a stream was opened. Events may have been missed before: inspect
	// all pods once.
	StreamOpened()
	// HandleEvent is called for each event about this agent's pods.
	HandleEvent(Event)
	// StreamLost is called when a stream has ended. No events follow until the next
	// StreamOpened.
	StreamLost(error)
}

// EventsConfig configures Events.
type EventsConfig struct {
	// Runtime streams the events. Required.
	Runtime EventStreamer
	// Handler gets the events. Required.
	Handler EventHandler
	// Owner is the owner whose pods' events are forwarded. Default: the zero Owner, for pods that podsync
	// created.
	Owner cri.Owner
	// Log receives a line when a stream is opened or lost. Default: no log.
	Log logr.Logger
}

// Events reads the runtime's container event stream, and opens it again whenever
// it ends.
type Events struct{ config EventsConfig }

// NewEvents returns an Events. It makes no call; Run does.
func NewEvents(c EventsConfig) (*Events, error) {
	switch {
	case c.Runtime == nil:
		return nil, errors.New("pleg: EventsConfig.Runtime is missing")
	case c.Handler == nil:
		return nil, errors.New("pleg: EventsConfig.Handler is missing")
	}
	if err := c.Owner.Validate(); err != nil {
		return nil, err
	}
	return &Events{config: c}, nil
}

// Run reads events until ctx ends, and then returns ctx's error. It returns
// earlier only if the runtime has no event stream, with the error class
// cri.ErrUnimplemented: then the caller must list the pods periodically.
func (e *Events) Run(ctx context.Context) error {
	delay := firstReopen
	for {
		brought, err := e.stream(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, cri.ErrUnimplemented):
			return err
		case brought:
			delay = firstReopen
		}
		e.config.Log.V(1).Info("container event stream lost", "err", err, "retryIn", delay)
		if err := sleep(ctx, delay); err != nil {
			return err
		}
		delay = min(2*delay, maxReopen)
	}
}

// stream opens a stream and reads it to its end. It reports whether it has received an event,
// and returns the reason for the end, which is never nil.
func (e *Events) stream(ctx context.Context) (brought bool, err error) {
	stream, err := e.config.Runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return false, cri.Classify(err)
	}
	e.config.Log.V(1).Info("container event stream opened")
	e.config.Handler.StreamOpened()
	for {
		resp, err := stream.Recv()
		if err != nil {
			err = cri.Classify(err)
			e.config.Handler.StreamLost(err)
			return brought, err
		}
		brought = true
		if event, mine := e.event(resp); mine {
			e.config.Handler.HandleEvent(event)
		}
	}
}

// event converts a message. mine is false if the sandbox belongs to another agent. A message without the sandbox's
// status counts as this agent's.
func (e *Events) event(m *runtimeapi.ContainerEventResponse) (event Event, mine bool) {
	s := m.GetPodSandboxStatus()
	uid := s.GetMetadata().GetUid()
	if uid != "" && !e.config.Owner.Owns(s.GetLabels()) {
		return Event{}, false
	}
	return Event{
		PodUID:      types.UID(uid),
		ContainerID: m.GetContainerId(),
		Type:        eventType(m.GetContainerEventType()),
	}, true
}

func eventType(t runtimeapi.ContainerEventType) EventType {
	switch t {
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		return EventStarted
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		return EventStopped
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		return EventDeleted
	}
	return EventCreated
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
