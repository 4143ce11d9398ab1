package conformance

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var eventRules = []rule{
	{"events", "GetContainerEvents tells creation, start, exit and removal of a container, in this order, under its ID and with a time; or it is unimplemented.", checkEvents},
	{"events-sandbox", "An event carries the status of the pod's sandbox, by which one knows whose it is; or GetContainerEvents is unimplemented.", checkEventsSandbox},
}

// listen opens the stream and collects the events of the pod's container and sandbox until the
// container's removal.
func (b *bench) listen(do func(p *pod) string) []*runtimeapi.ContainerEventResponse {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	stream, err := b.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	b.must(err)
	ready := make(chan error, 1)
	var events []*runtimeapi.ContainerEventResponse
	received := make(chan *runtimeapi.ContainerEventResponse, 1024)
	go func() {
		defer close(received)
		for {
			e, err := stream.Recv()
			if err != nil {
				ready <- err
				return
			}
			received <- e
		}
	}()
	select {
	case err := <-ready:
		if status.Code(err) == codes.Unimplemented {
			b.Skip("this runtime has no GetContainerEvents")
		}
		b.must(err)
	case <-time.After(300 * time.Millisecond): // enough time for the runtime to receive the call
	}
	id := do(b.runSandbox(0))
	for e := range received {
		if e.GetContainerId() != id {
			continue
		}
		events = append(events, e)
		if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT {
			cancel()
			for range received { // until the receiver has ended
			}
			return events
		}
	}
	b.broken("the stream ended after %d events", len(events))
	return nil
}

func (b *bench) wholeLife(p *pod) string {
	b.Helper()
	id := p.run(script("exit 3"))
	b.waitExited(id)
	b.must(b.removeIt(id))
	return id
}

func checkEvents(b *bench) {
	var types []runtimeapi.ContainerEventType
	for _, e := range b.listen(b.wholeLife) {
		types = append(types, e.GetContainerEventType())
		if e.GetCreatedAt() == 0 {
			b.broken("%v has no time", e.GetContainerEventType())
		}
	}
	want := []runtimeapi.ContainerEventType{
		runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
	}
	if !slices.Equal(types, want) {
		b.broken("they are %v", types)
	}
}

func checkEventsSandbox(b *bench) {
	for _, e := range b.listen(b.wholeLife) {
		if got := e.GetPodSandboxStatus().GetMetadata().GetUid(); got != b.uid {
			b.broken("%v has the UID %q", e.GetContainerEventType(), got)
		}
		if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
			if len(e.GetContainersStatuses()) != 1 || e.GetContainersStatuses()[0].GetExitCode() != 3 {
				b.broken("the event of the exit has the statuses %v", e.GetContainersStatuses())
			}
		}
	}
}
