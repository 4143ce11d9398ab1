package watch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/podreader"
	"github.com/podsync/podsync/runtime"
)

// A pod is what a Watcher keeps of one pod: while the runtime has something of it,
// or while there is something to do. All of it is guarded by the Watcher's mu.
type pod struct {
	uid types.UID
	// latest is the newest status, told the last one passed to Changed or returned by GetNewerThan. Nil
	// means that nothing is known of the pod.
	latest, told *runtime.PodStatus
	// listed is the pod's entry in Pods, nil if no list has shown the pod or it is gone.
	listed *Pod

	now  *look // in flight
	next *look // to begin after it, nil if none is requested
	// kick ends the wait of the goroutine that is at work for the pod, nil if none is.
	kick chan struct{}
	// untold means that latest must be reported.
	untold bool
	// held counts the Holds of the pod, whose Release inspects it; heard means
	// done; heard: there was an event meanwhile.
	held  int
	heard bool
	// hinted are events that came while a look was in flight, which may show already what
	// they are about.
	hinted []Event

	// err is why the last look failed, and since when all have.
	err   error
	since time.Time
	// tries counts the looks in a row that brought no complete status, and retryAt
	// is when the next one is due. Zero if none is.
	tries   int
	retryAt time.Time
}

// A look is one inspection of a pod, which several callers may share.
type look struct {
	asked time.Time
	// began is when the read began, zero before that.
	began time.Time
	// listed, if not nil, is the pod in a list that began after asked: only what
	// is missing in it has to be read.
	listed *podreader.ListedPod
	// waiting callers of GetNewerThan.
	waiting int

	done   chan struct{} // closed at the end; status and err are set before
	told   chan struct{} // closed after Changed has returned, if it was called
	status *runtime.PodStatus
	err    error
}

func (l *look) end(status *runtime.PodStatus, err error) {
	l.status, l.err = status, err
	close(l.done)
}

// due reports whether there is something to do.
func (p *pod) due() bool { return p.untold || p.next != nil || !p.retryAt.IsZero() }

// newest is when the newest read of the pod began, be it finished or not.
func (p *pod) newest() time.Time {
	switch {
	case p.now != nil:
		return p.now.began
	case p.latest != nil:
		return p.latest.ObservedAt
	}
	return time.Time{}
}

// pod must be called with mu held, as all below.
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
	if p.kick == nil && p.held == 0 && !p.due() && p.listed == nil && p.latest.Empty() && p.told.Empty() && w.pods[p.uid] == p {
		delete(w.pods, p.uid)
	}
}

// ask ensures that an inspection of the pod begins from now on.
func (w *Watcher) ask(p *pod) *look {
	if p.next == nil {
		p.next = &look{done: make(chan struct{}), told: make(chan struct{})}
	}
	p.next.asked, p.next.listed = time.Now(), nil
	w.wake(p)
	return p.next
}

// offer ensures that a listed pod is inspected. The list also answers requests that were made
// before it began.
func (w *Watcher) offer(p *pod, listed *podreader.ListedPod) *look {
	switch {
	case p.next == nil:
		p.next = &look{asked: listed.ObservedAt, done: make(chan struct{}), told: make(chan struct{}), listed: listed}
	case p.next.asked.Before(listed.ObservedAt):
		p.next.listed = listed
	}
	w.wake(p)
	return p.next
}

// wake ensures that a goroutine serves the pod.
func (w *Watcher) wake(p *pod) {
	switch {
	case w.gate != gateOpen:
	case p.kick == nil:
		p.kick = make(chan struct{}, 1)
		ctx, kick := w.ctx, p.kick
		w.tasks.Go(func() { w.work(ctx, p, kick) })
	default:
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

// A step is what a pod's goroutine does next.
type step uint8

const (
	stepEnd step = iota
	stepTell
	stepLook
	stepWait
)

// work does what there is to do for a pod until there is nothing.
func (w *Watcher) work(ctx context.Context, p *pod, kick <-chan struct{}) {
	var last *look
	for {
		step, wait := w.step(ctx, p)
		if step != stepTell && last != nil {
			close(last.told)
			last = nil
		}
		switch step {
		case stepTell:
			w.tell(p)
		case stepLook:
			if last = w.look(ctx, p); last != nil && last.err == nil && last.status != nil {
				w.config.Observed(ctx, last.status)
			}
		case stepWait:
			pause(ctx, wait, kick)
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
		case p.untold:
			return stepTell, 0
		case p.next != nil:
			return stepLook, 0
		case !p.retryAt.IsZero():
			if wait := time.Until(p.retryAt); wait > 0 {
				return stepWait, wait
			}
			return stepLook, 0
		}
	}
	p.kick = nil
	w.forget(p)
	return stepEnd, 0
}

// pause waits until there may be something else to do.
func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-kick:
	case <-ctx.Done():
	}
}

// tell reports the newest status of the pod.
func (w *Watcher) tell(p *pod) {
	w.mu.Lock()
	status := p.latest
	p.told, p.untold = status, false
	w.mu.Unlock()
	w.config.Changed(p.uid, status)
}
