package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// eventLog records the runtime's events. State comes from the event stream: polling would slow the
// runtime and bias the comparison.
type eventLog struct {
	client  *cri.Client
	since   time.Time // earlier events, which a runtime may have kept, do not count
	streams bool      // otherwise the runtime has no events
	ended   chan struct{}
	end     context.CancelFunc

	mu      sync.Mutex
	exits   map[string]chan struct{} // by container, closed when it has exited
	pods    map[string]string        // names by sandbox
	started map[string]time.Time     // by pod, when its main container started
	gone    map[string]time.Time     // by pod, when its sandbox was removed
}

var errStreamEnded = errors.New("the runtime has ended the stream of its events")

// check returns an error if events are missed.
func (l *eventLog) check() error {
	select {
	case <-l.ended:
		if l.streams {
			return errStreamEnded
		}
	default:
	}
	return nil
}

// listen follows a runtime's events until end is called.
func listen(client *cri.Client) *eventLog {
	ctx, cancel := context.WithCancel(context.Background())
	l := &eventLog{
		client: client, since: time.Now(), ended: make(chan struct{}), end: cancel, exits: map[string]chan struct{}{},
		pods: map[string]string{}, started: map[string]time.Time{}, gone: map[string]time.Time{},
	}
	events, err := client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return l
	}
	go func() {
		defer close(l.ended)
		for {
			event, err := events.Recv()
			if err != nil {
				return
			}
			l.record(event)
		}
	}()
	select {
	case <-l.ended: // the runtime has no events
	case <-time.After(200 * time.Millisecond):
		l.streams = true
	}
	return l
}

// record records an event. Events may arrive twice.
func (l *eventLog) record(event *runtimeapi.ContainerEventResponse) {
	if event.GetCreatedAt() < l.since.UnixNano() {
		return
	}
	id, now := event.GetContainerId(), time.Now()
	if event.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
		select {
		case <-l.exited(id):
		default:
			close(l.exited(id))
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sandbox := event.GetPodSandboxStatus()
	if pod := sandbox.GetMetadata().GetName(); pod != "" {
		l.pods[sandbox.GetId()] = pod
	}
	if pod := l.pods[id]; pod != "" && event.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT {
		l.gone[pod] = now
	}
	for _, c := range event.GetContainersStatuses() {
		if c.GetMetadata().GetName() == "main" && c.GetStartedAt() > 0 {
			l.started[sandbox.GetMetadata().GetName()] = time.Unix(0, c.GetStartedAt())
		}
	}
}

func (l *eventLog) exited(id string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exits[id] == nil {
		l.exits[id] = make(chan struct{})
	}
	return l.exits[id]
}

// running returns when the main containers of pods started whose names have the prefix.
func (l *eventLog) running(prefix string) map[string]time.Time { return l.of(l.started, prefix) }

// removed returns the times of removal of the pods whose names have the prefix.
func (l *eventLog) removed(prefix string) map[string]time.Time { return l.of(l.gone, prefix) }

func (l *eventLog) of(times map[string]time.Time, prefix string) map[string]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]time.Time{}
	for pod, at := range times {
		if strings.HasPrefix(pod, prefix) {
			found[pod] = at
		}
	}
	return found
}

// exit waits until a container has exited. If the runtime has no events, it polls.
func (l *eventLog) exit(ctx context.Context, id string) error {
	if l.streams {
		select {
		case <-l.exited(id):
			return nil
		case <-l.ended:
			return errStreamEnded
		case <-ctx.Done():
			return fmt.Errorf("container %s: no exit: %w", id, ctx.Err())
		}
	}
	for {
		s, err := l.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil || s.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
