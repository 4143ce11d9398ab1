package loop

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod"
)

const (
	// maxEvents bounds the events that wait for the recorder.
	maxEvents = 1000
	// maxMessage limits an event's message, in bytes.
	maxMessage = 4 << 10
	// flushTimeout is how long the end of Run waits until queued events are recorded.
	flushTimeout = 2 * time.Second
)

// An eventQueue queues events for the embedder's recorder, which may be slow or block: no sync
// waits for it. It keeps the order. When it is full, a new event replaces the oldest event of the
// same pod, or the oldest of all if there is none.
type eventQueue struct {
	recorder syncpod.EventRecorder
	observer syncpod.Observer
	log      logr.Logger

	mu      sync.Mutex
	waiting []event
	// sent is closed when send returns, and nil while send does not run: an idle Loop needs no goroutine for it.
	sent chan struct{}
	// closed means that no events follow. dropping means that an event was dropped since the queue was last
	// empty.
	closed, dropping bool
}

// event is one event, with its message as of the time when it happened.
type event struct {
	about                 k8sruntime.Object
	annotations           map[string]string
	kind, reason, message string
}

var _ syncpod.EventRecorder = (*eventQueue)(nil)

// queueEvents puts a queue before the recorder of a Config. It returns nil if that has
// no recorder.
func queueEvents(c *Config) *eventQueue {
	if c.Sync.Events == nil {
		return nil
	}
	q := &eventQueue{recorder: c.Sync.Events, observer: c.Sync.Observer, log: c.Log}
	if q.observer == nil {
		q.observer = syncpod.NopObserver{}
	}
	c.Sync.Events = q
	return q
}

// Eventf queues an event. It waits for nothing but a lock.
func (q *eventQueue) Eventf(about k8sruntime.Object, kind, reason, format string, args ...any) {
	q.AnnotatedEventf(about, nil, kind, reason, format, args...)
}

// AnnotatedEventf queues an event with annotations, which must not change afterwards.
func (q *eventQueue) AnnotatedEventf(about k8sruntime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	e := event{about, annotations, kind, reason, foreign.CutText(fmt.Sprintf(format, args...), maxMessage)}
	dropped, first := q.add(e)
	if first {
		q.log.Info("events are dropped because the recorder does not take them", "waiting", maxEvents)
	}
	if dropped != nil {
		q.observer.EventDropped(dropped.about, dropped.reason)
	}
}

// add enqueues an event. It returns the dropped event, which may be e itself, and whether that is
// the first one since the queue was last empty.
func (q *eventQueue) add(e event) (dropped *event, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return &e, false
	}
	if len(q.waiting) >= maxEvents {
		at := max(0, slices.IndexFunc(q.waiting, func(other event) bool { return subject(other.about) == subject(e.about) }))
		dropped, first = new(q.waiting[at]), !q.dropping
		q.waiting, q.dropping = slices.Delete(q.waiting, at, at+1), true
	}
	q.waiting = append(q.waiting, e)
	if q.sent == nil {
		q.sent = make(chan struct{})
		go q.send()
	}
	return dropped, first
}

// subject returns the pod, or the node, of an event.
func subject(about k8sruntime.Object) types.UID {
	if ref, ok := about.(*v1.ObjectReference); ok {
		return ref.UID
	}
	return ""
}

// send hands the events on, one at a time, until the queue is empty.
func (q *eventQueue) send() {
	for {
		e, ok := q.next()
		switch {
		case !ok:
			return
		case e.annotations == nil:
			q.recorder.Eventf(e.about, e.kind, e.reason, "%s", e.message)
		default:
			q.recorder.AnnotatedEventf(e.about, e.annotations, e.kind, e.reason, "%s", e.message)
		}
	}
}

// next removes the oldest event from the queue. If there is none, send returns, and the next event starts it again.
func (q *eventQueue) next() (e event, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		close(q.sent)
		q.waiting, q.dropping, q.sent = nil, false, nil
		return event{}, false
	}
	e, q.waiting = q.waiting[0], q.waiting[1:]
	return e, true
}

// flush closes the queue. It returns when the queued events have been recorded, or dropped after
// flushTimeout.
func (q *eventQueue) flush() {
	q.mu.Lock()
	q.closed = true
	sent := q.sent
	q.mu.Unlock()
	if sent == nil {
		return
	}
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	select {
	case <-sent:
		return
	case <-timer.C:
	}
	q.mu.Lock()
	dropped := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for _, e := range dropped {
		q.observer.EventDropped(e.about, e.reason)
	}
}
