package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// told is what the runtime has told by its events. Floor and agent are measured by
// the same events, so that to look does not cost the one more than the other.
type told struct {
	client  *cri.Client
	streams bool // or else the runtime has no events
	end     context.CancelFunc

	mu      sync.Mutex
	exits   map[string]chan struct{} // by container, closed when it has exited
	pods    map[string]string        // names by sandbox
	started map[string]time.Time     // by pod, when its main container started
	gone    map[string]time.Time     // by pod, when its sandbox was removed
}

// listen follows the events of a runtime until end is called.
func listen(client *cri.Client) *told {
	ctx, cancel := context.WithCancel(context.Background())
	t := &told{
		client: client, end: cancel, exits: map[string]chan struct{}{},
		pods: map[string]string{}, started: map[string]time.Time{}, gone: map[string]time.Time{},
	}
	events, err := client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return t
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			event, err := events.Recv()
			if err != nil {
				return
			}
			t.tell(event)
		}
	}()
	select {
	case <-ended: // the runtime has no events
	case <-time.After(200 * time.Millisecond):
		t.streams = true
	}
	return t
}

// tell takes an event. Events may come twice.
func (t *told) tell(event *runtimeapi.ContainerEventResponse) {
	id, now := event.GetContainerId(), time.Now()
	if event.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
		select {
		case <-t.exited(id):
		default:
			close(t.exited(id))
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sandbox := event.GetPodSandboxStatus()
	if pod := sandbox.GetMetadata().GetName(); pod != "" {
		t.pods[sandbox.GetId()] = pod
	}
	if pod := t.pods[id]; pod != "" && event.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT {
		t.gone[pod] = now
	}
	for _, c := range event.GetContainersStatuses() {
		if c.GetMetadata().GetName() == "main" && c.GetStartedAt() > 0 {
			t.started[sandbox.GetMetadata().GetName()] = time.Unix(0, c.GetStartedAt())
		}
	}
}

func (t *told) exited(id string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exits[id] == nil {
		t.exits[id] = make(chan struct{})
	}
	return t.exits[id]
}

// running returns when the main containers of pods whose names begin so started.
func (t *told) running(prefix string) map[string]time.Time { return t.of(t.started, prefix) }

// removed returns when pods whose names begin so were gone.
func (t *told) removed(prefix string) map[string]time.Time { return t.of(t.gone, prefix) }

func (t *told) of(times map[string]time.Time, prefix string) map[string]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	begin := map[string]time.Time{}
	for pod, at := range times {
		if strings.HasPrefix(pod, prefix) {
			begin[pod] = at
		}
	}
	return begin
}

// exit waits until a container has exited. A runtime that has no events is asked for it again
// and again.
func (t *told) exit(ctx context.Context, id string) error {
	if t.streams {
		select {
		case <-t.exited(id):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("container %s: no exit: %w", id, ctx.Err())
		}
	}
	for {
		s, err := t.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil || s.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
