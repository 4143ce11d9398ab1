package critest

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/inject"
)

// keepEvents is how long events are kept for a future listener, as in containerd 2.
const keepEvents = 5 * time.Minute

// A broker sends events to the streams.
type broker struct {
	mu      sync.Mutex
	streams []*eventStream
	unheard queue // events that no listener has received
	faults  inject.Events
}

// An eventStream is one listener. Its queue has no limit: a slow listener loses no event.
type eventStream struct {
	queue queue // guarded by the broker's mu
	wake  chan struct{}
	end   error // the error to break the stream with, guarded by the broker's mu
}

func (es *eventStream) notify() {
	select {
	case es.wake <- struct{}{}:
	default:
	}
}

// emit sends an event with the pod's current state.
func (r *Runtime) emit(id, sandboxID string, t runtimeapi.ContainerEventType) {
	msg := &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: t, CreatedAt: time.Now().UnixNano(),
	}
	r.mu.Lock()
	sb := r.sandboxes[sandboxID]
	if r.isUnclaimed(id) || sb != nil && sb.silent {
		r.mu.Unlock()
		return
	}
	if sb != nil {
		msg.PodSandboxStatus = sb.status()
	}
	for _, c := range r.containersOf(sandboxID) {
		if r.cfg.Like == CRIO && c.podUID != c.sandbox.config.GetMetadata().GetUid() {
			continue // CRI-O finds pods by that label
		}
		msg.ContainersStatuses = append(msg.ContainersStatuses, c.status())
	}
	who := r.subjects[id]
	r.mu.Unlock()
	r.events.publish(msg, who)
}

func (b *broker) publish(msg *runtimeapi.ContainerEventResponse, who subject) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.faults.Apply(inject.Event{Due: time.Now(), Msg: msg}, inject.Subject{PodUID: who.uid, Container: who.container, Attempt: who.attempt}) {
		b.deliver(e)
	}
}

// deliver must be called with mu held.
func (b *broker) deliver(e inject.Event) {
	if len(b.streams) == 0 {
		b.unheard.add(e)
		b.unheard.dropStale()
	}
	for _, es := range b.streams {
		es.queue.add(inject.Event{Due: e.Due, Msg: proto.CloneOf(e.Msg)})
		es.notify()
	}
}

// queue holds events ordered by their due times; equal ones stay in the order of arrival.
type queue []inject.Event

// add scans only the events that are due later than e.
func (q *queue) add(e inject.Event) {
	at := len(*q)
	for at > 0 && (*q)[at-1].Due.After(e.Due) {
		at--
	}
	*q = slices.Insert(*q, at, e)
}

func (q *queue) drop() {
	(*q)[0] = inject.Event{}
	*q = (*q)[1:]
}

func (q *queue) dropStale() {
	for len(*q) > 0 && time.Since((*q)[0].Due) >= keepEvents {
		q.drop()
	}
}

// subscribe adds a listener. The first one receives the events that were kept.
func (b *broker) subscribe() *eventStream {
	b.mu.Lock()
	defer b.mu.Unlock()
	es := &eventStream{wake: make(chan struct{}, 1)}
	b.unheard.dropStale()
	es.queue, b.unheard = b.unheard, nil
	b.streams = append(b.streams, es)
	es.notify()
	return es
}

func (b *broker) unsubscribe(es *eventStream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams = slices.DeleteFunc(b.streams, func(o *eventStream) bool { return o == es })
}

// disconnect breaks all streams with an error.
func (b *broker) disconnect(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, es := range b.streams {
		es.end = err
		es.notify()
	}
}

// take returns the next due event, or how long to wait for one. A negative duration means until the stream changes.
func (b *broker) take(es *eventStream) (msg *runtimeapi.ContainerEventResponse, wait time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if es.end != nil {
		return nil, 0, es.end
	}
	if len(es.queue) == 0 {
		return nil, -1, nil
	}
	first := es.queue[0]
	if wait := time.Until(first.Due); wait > 0 {
		return nil, wait, nil
	}
	es.queue.drop()
	return first.Msg, 0, nil
}

// GetContainerEvents streams events as they happen. It sends the header immediately: a client that has
// received the header misses no later event.
func (s service) GetContainerEvents(_ *runtimeapi.GetEventsRequest, out grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if s.cfg.Like == Containerd16 {
		return status.Error(codes.Unimplemented, "unknown method GetContainerEvents for service runtime.v1.RuntimeService")
	}
	es := s.events.subscribe()
	defer s.events.unsubscribe(es)
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	for {
		msg, wait, err := s.events.take(es)
		switch {
		case err != nil:
			return err
		case msg != nil:
			if err := out.Send(msg); err != nil {
				return err
			}
			continue
		}
		if err := es.wait(out, wait); err != nil {
			return err
		}
	}
}

// wait waits until the stream changes, but at most for d if d is not negative.
func (es *eventStream) wait(out grpc.ServerStream, d time.Duration) error {
	var due <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-es.wake:
	case <-due:
	case <-out.Context().Done():
		return status.FromContextError(out.Context().Err()).Err()
	}
	return nil
}
