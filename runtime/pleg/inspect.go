package pleg

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// inspect reads a pod once. It returns the inspection, nil if none took place.
func (w *Watcher) inspect(ctx context.Context, p *pod) *inspection {
	release, err := w.slots.take(ctx)
	if err != nil {
		return nil
	}
	defer release()
	l, prev := w.begin(p)
	if l == nil {
		return nil
	}
	began := time.Now()
	status, err := w.read(ctx, p, l, prev)
	if ctx.Err() != nil {
		w.drop(p, l)
		return l
	}
	w.config.Observer.Inspected(p.uid, time.Since(began), err)
	if err != nil {
		w.config.Unreadable(p.uid, err)
	}
	w.finish(p, l, status, err)
	return l
}

// begin takes the requested inspection, or nil if inspections must not run now.
func (w *Watcher) begin(p *pod) (*inspection, *runtime.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate != gateOpen {
		return nil, nil
	}
	l := p.next
	if l == nil {
		l = &inspection{requested: time.Now(), done: make(chan struct{}), reported: make(chan struct{})}
	}
	l.began = time.Now()
	if l.listed != nil {
		l.began = l.listed.ObservedAt
	} else {
		p.missedEvent = false
	}
	if !p.missedEvent { // a list may be older than the event
		p.retryAt = time.Time{}
	}
	p.now, p.next = l, nil
	return l, p.latest
}

func (w *Watcher) read(ctx context.Context, p *pod, l *inspection, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if l.listed != nil {
		return w.config.Reader.Inspect(ctx, l.listed, prev)
	}
	return w.config.Reader.PodStatus(ctx, p.uid, prev)
}

// drop ends an inspection that Run's end has interrupted.
func (w *Watcher) drop(p *pod, l *inspection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.now = nil
	l.end(nil, ErrStopped)
}

// finish records an inspection's result.
func (w *Watcher) finish(p *pod, l *inspection, status *runtime.PodStatus, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.now = nil
	if err != nil {
		w.failed(p, l, err)
	} else {
		w.succeeded(p, l, status)
	}
	w.recheckEvents(p)
	l.end(status, err)
}

func (w *Watcher) failed(p *pod, l *inspection, err error) {
	if p.err == nil {
		p.since = l.began
		w.config.Log.Error(err, "pod cannot be read", "podUID", p.uid)
	}
	p.err = err
	w.retryLater(p)
	w.cache.Set(p.uid, nil, err, l.began)
	if errors.Is(err, cri.ErrUnavailable) {
		w.wantList()
	}
}

func (w *Watcher) succeeded(p *pod, l *inspection, status *runtime.PodStatus) {
	recovered := p.err != nil
	if recovered {
		w.config.Log.Info("pod can be read again", "podUID", p.uid, "failedFor", time.Since(p.since))
	}
	p.err, p.since = nil, time.Time{}
	wasListed := p.listed != nil
	if w.cache.Set(p.uid, status, nil, l.began) {
		w.setLatest(p, status)
		p.observe(status)
	}
	differs := !p.latest.Equal(p.reported)
	if differs {
		w.listSoon()
	} else {
		p.reported = p.latest // equal statuses share memory
	}
	if awaitsAddress(p.latest) {
		w.retryLater(p)
	} else {
		p.tries = 0
	}
	// Callers that wait for this inspection get its result. Changed reports that the pod has disappeared from Pods, and
	// a concurrent list's results.
	p.unreported = p.unreported || (differs || recovered) && l.waiting == 0 || wasListed && p.listed == nil
}

// retryLater schedules another pod inspection after a pause that grows.
func (w *Watcher) retryLater(p *pod) {
	p.retryAt = time.Now().Add(retryPause(p.tries))
	p.tries++
}

// retryPause returns the pause after a failure that follows others.
func retryPause(failures int) time.Duration {
	pause := minRetry
	for range failures {
		if pause >= maxRetry/2 {
			return maxRetry
		}
		pause *= 2
	}
	return pause
}

// observe updates Pods after an inspection.
func (p *pod) observe(status *runtime.PodStatus) {
	switch {
	case status.Empty():
		p.listed = nil
	case p.listed != nil:
		known := *p.listed
		known.Running, known.ObservedAt = running(status), status.ObservedAt
		p.listed = &known
	}
}

func running(s *runtime.PodStatus) bool {
	for i := range s.Sandboxes {
		if s.Sandboxes[i].State == runtime.SandboxReady {
			return true
		}
	}
	for i := range s.Containers {
		if state := s.Containers[i].State; state == runtime.ContainerRunning || state == runtime.ContainerUnknown {
			return true
		}
	}
	return false
}

// awaitsAddress reports whether the pod should have an address and has none yet.
// Neither an event nor a list shows that the pod has got its address.
func awaitsAddress(s *runtime.PodStatus) bool {
	active := s.ActiveSandbox()
	return active != nil && active.NetworkMode != runtime.NamespaceNode && len(s.IPs()) == 0
}

// slots limit the concurrent inspections. A slow inspection releases its slot while it
// continues, so that inspections that hang cannot occupy all slots.
type slots chan struct{}

// take waits for a slot. The caller calls release at most once.
func (s slots) take(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-s })
	slow := time.AfterFunc(slowInspection, free)
	return func() {
		slow.Stop()
		free()
	}, nil
}
