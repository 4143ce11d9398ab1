package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/reader"
)

// A pod is the Watcher's state for one pod. It exists while the runtime has the pod's
// objects, or while work for the pod is due. The Watcher's mu guards it.
type pod struct {
	uid types.UID
	// latest is the newest status. reported is the last status passed to Changed or returned by GetNewerThan. Nil
	// means that there is none.
	latest, reported *runtime.PodStatus
	// listed is the pod's entry in Pods, nil if no list has shown the pod, or the runtime no longer has it.
	listed *Pod

	now  *inspection // the inspection in flight
	next *inspection // the inspection that starts after it, nil if none is requested
	// wakeup wakes the pod's goroutine. It is nil if the pod has no goroutine.
	wakeup chan struct{}
	// unreported means that latest must be reported.
	unreported bool
	// held counts the Holds on the pod. missedEvent means that an event has arrived while the pod was held.
	held        int
	missedEvent bool
	// queuedEvents are the events that have arrived during the inspection in flight, which may already show their
	// cause.
	queuedEvents []Event

	// err is the last inspection's error; since is the time since which all have failed.
	err   error
	since time.Time
	// tries counts the inspections in a row without a complete status. retryAt is the next one's
	// time, zero if none is due.
	tries   int
	retryAt time.Time
}

// An inspection is one pod inspection, which several callers may share.
type inspection struct {
	requested time.Time
	// began is when the read began, zero before that.
	began time.Time
	// listed, if not nil, is the pod's entry in a list that began after requested: only the details that a
	// list does not have must be read.
	listed *reader.ListedPod
	// waiting counts the GetNewerThan callers that wait.
	waiting int

	done     chan struct{} // closed at the end; status and err are set before
	reported chan struct{} // closed after Changed has returned, if it was called
	status   *runtime.PodStatus
	err      error
}

func (l *inspection) end(status *runtime.PodStatus, err error) {
	l.status, l.err = status, err
	close(l.done)
}

// due reports whether work for the pod is due.
func (p *pod) due() bool { return p.unreported || p.next != nil || !p.retryAt.IsZero() }

// newest returns when the pod's newest read began. The read may be in flight.
func (p *pod) newest() time.Time {
	switch {
	case p.now != nil:
		return p.now.began
	case p.latest != nil:
		return p.latest.ObservedAt
	}
	return time.Time{}
}

// pod returns a pod's state, and creates it if there is none. It requires mu to be held, as do the methods below.
func (w *Watcher) pod(uid types.UID) *pod {
	p := w.pods[uid]
	if p == nil {
		p = &pod{uid: uid}
		w.pods[uid] = p
	}
	return p
}

// forget drops a pod that the runtime does not have and that no caller waits for.
func (w *Watcher) forget(p *pod) {
	if p.wakeup == nil && p.held == 0 && !p.due() && p.listed == nil && p.latest.Empty() && p.reported.Empty() && w.pods[p.uid] == p {
		delete(w.pods, p.uid)
	}
}

// request ensures that a pod inspection begins after this call.
func (w *Watcher) request(p *pod) *inspection {
	if p.next == nil {
		p.next = &inspection{done: make(chan struct{}), reported: make(chan struct{})}
	}
	p.next.requested, p.next.listed = time.Now(), nil
	w.wake(p)
	return p.next
}

// requestListed ensures that a listed pod is inspected. The list also answers requests that were made
// before it began.
func (w *Watcher) requestListed(p *pod, listed *reader.ListedPod) *inspection {
	switch {
	case p.next == nil:
		p.next = &inspection{requested: listed.ObservedAt, done: make(chan struct{}), reported: make(chan struct{}), listed: listed}
	case p.next.requested.Before(listed.ObservedAt):
		p.next.listed = listed
	}
	w.wake(p)
	return p.next
}

// wake ensures that a goroutine serves the pod.
func (w *Watcher) wake(p *pod) {
	switch {
	case w.gate != gateOpen:
	case p.wakeup == nil:
		p.wakeup = make(chan struct{}, 1)
		ctx, wakeup := w.ctx, p.wakeup
		w.tasks.Go(func() { w.work(ctx, p, wakeup) })
	default:
		select {
		case p.wakeup <- struct{}{}:
		default:
		}
	}
}

// A step is the next step for a pod's goroutine.
type step uint8

const (
	stepEnd step = iota
	stepReport
	stepInspect
	stepWait
)

// work does a pod's work until none is due.
func (w *Watcher) work(ctx context.Context, p *pod, wakeup <-chan struct{}) {
	var last *inspection
	for {
		step, wait := w.step(ctx, p)
		if step != stepReport && last != nil {
			close(last.reported)
			last = nil
		}
		switch step {
		case stepReport:
			w.report(p)
		case stepInspect:
			if last = w.inspect(ctx, p); last != nil && last.err == nil && last.status != nil {
				w.config.Observed(ctx, last.status)
			}
		case stepWait:
			pause(ctx, wait, wakeup)
		case stepEnd:
			return
		}
	}
}

func (w *Watcher) step(ctx context.Context, p *pod) (step, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == gateOpen && ctx.Err() == nil {
		switch {
		case p.unreported:
			return stepReport, 0
		case p.next != nil:
			return stepInspect, 0
		case !p.retryAt.IsZero():
			if wait := time.Until(p.retryAt); wait > 0 {
				return stepWait, wait
			}
			return stepInspect, 0
		}
	}
	p.wakeup = nil
	w.forget(p)
	return stepEnd, 0
}

// pause waits until d has passed, or until wakeup or ctx ends the wait.
func pause(ctx context.Context, d time.Duration, wakeup <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wakeup:
	case <-ctx.Done():
	}
}

// report reports the pod's newest status.
func (w *Watcher) report(p *pod) {
	w.mu.Lock()
	status := p.latest
	p.reported, p.unreported = status, false
	w.mu.Unlock()
	w.config.Changed(p.uid, status)
}
