package syncpod

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
)

// shortStep is how long later steps of a plan wait for a pull or a postStart handler. After it, the steps that do not depend on it
// are carried out, and the next change of the pod leads to another decision.
const shortStep = time.Second

// retryInFlight is when a step that failed is tried again beside a pull, if the failure has no back-off.
const retryInFlight = 10 * time.Second

// flights are a SyncPod's starts whose images are being pulled, its postStart handlers, and its stops. While they last, further
// decisions leave out their containers, so that a crashed container restarts at its time although another container's image takes
// minutes. All of them end with the SyncPod.
type flights struct {
	ctx      context.Context
	cancel   context.CancelFunc
	starts   []*startFlight // in the order of their plans
	handlers []*handlerFlight
	stops    []*stopFlight
	// landed has a value when a pull, a handler or a stop has ended.
	landed chan struct{}
}

// startFlight is one start, until its container runs.
type startFlight struct {
	*containerstart.Start
	// cancel ends the pull.
	cancel context.CancelFunc
	pod    containerstart.Pod
	step   actions.StartStep
	began  time.Time
}

// handlerFlight is one postStart handler, and the stop of its container if it fails.
type handlerFlight struct {
	step  actions.PostStartStep
	began time.Time
	// started is the start before it, nil if an earlier call has started the container. startBegan is when it began.
	started    *containerstart.Started
	startBegan time.Time
	done       chan struct{}
	// failed is the failure, once done is closed.
	failed *containerstart.Error
}

// newFlights returns flights that end with ctx.
func newFlights(ctx context.Context) *flights {
	f := &flights{landed: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// add adds a start, which the caller has begun with the context of the flights.
func (f *flights) add(st *startFlight) {
	f.starts = append(f.starts, st)
	go func() {
		<-st.Ready()
		f.land()
	}()
}

// handle adds a handler.
func (f *flights) handle(h *handlerFlight, run func() *containerstart.Error) {
	h.began, h.done = time.Now(), make(chan struct{})
	f.handlers = append(f.handlers, h)
	go func() {
		h.failed = run()
		close(h.done)
		f.land()
	}()
}

// land notes that a flight has ended.
func (f *flights) land() {
	select {
	case f.landed <- struct{}{}:
	default: // a value is pending
	}
}

// stopFlight is the stop or removal of one container's instances.
type stopFlight struct {
	name string
	// plan has the steps of the container alone.
	plan actions.Plan
	done chan struct{}
	// failed are the failures, once done is closed.
	failed []*lifecycle.Uncleared
}

// stopsOf returns the stops of a plan that keeps the pod running, by container, in the order of the plan.
func stopsOf(p actions.Plan) (all []*stopFlight) {
	of := func(name string) *actions.Plan {
		at := slices.IndexFunc(all, func(st *stopFlight) bool { return st.name == name })
		if at < 0 {
			at, all = len(all), append(all, &stopFlight{name: name, done: make(chan struct{})})
		}
		return &all[at].plan
	}
	for _, k := range p.Kill {
		plan := of(k.Container.Name)
		plan.Kill = append(plan.Kill, k)
	}
	for _, c := range p.Clear {
		plan := of(c.Container.Name)
		plan.Clear = append(plan.Clear, c)
	}
	return all
}

// ids returns the instances that are stopped.
func (st *stopFlight) ids() (ids []runtime.ContainerID) {
	for _, k := range st.plan.Kill {
		ids = append(ids, k.ID)
	}
	for _, c := range st.plan.Clear {
		ids = append(ids, c.ID)
	}
	return ids
}

// isClosed reports whether a flight has ended.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// stop adds a stop.
func (f *flights) stop(st *stopFlight, clear func() []*lifecycle.Uncleared) {
	f.stops = append(f.stops, st)
	go func() {
		st.failed = clear()
		close(st.done)
		f.land()
	}()
}

// anyOf reports whether one of these stops has not ended.
func (f *flights) anyOf(stops []*stopFlight) bool {
	return slices.ContainsFunc(stops, func(st *stopFlight) bool { return !isClosed(st.done) })
}

// awaitBegun waits for all stops and handlers.
func (f *flights) awaitBegun() {
	for _, st := range f.stops {
		<-st.done
	}
	for _, h := range f.handlers {
		<-h.done
	}
}

// takeHandlers removes and returns the handlers that have ended.
func (f *flights) takeHandlers() (ended []*handlerFlight) {
	f.handlers = slices.DeleteFunc(f.handlers, func(h *handlerFlight) bool {
		if isClosed(h.done) {
			ended = append(ended, h)
			return true
		}
		return false
	})
	return ended
}

// takeStops removes and returns the stops that have ended.
func (f *flights) takeStops() (ended []*stopFlight) {
	f.stops = slices.DeleteFunc(f.stops, func(st *stopFlight) bool {
		if isClosed(st.done) {
			ended = append(ended, st)
			return true
		}
		return false
	})
	return ended
}

// stopNames returns the containers that are being stopped.
func (f *flights) stopNames() (names []string) {
	for _, st := range f.stops {
		names = append(names, st.name)
	}
	return names
}

// stoppingIDs returns the instances that are being stopped.
func (f *flights) stoppingIDs() (ids []runtime.ContainerID) {
	for _, st := range f.stops {
		ids = append(ids, st.ids()...)
	}
	return ids
}

// restartingIDs returns the instances that are being stopped in order to start their containers again.
func (f *flights) restartingIDs() (ids []runtime.ContainerID) {
	for _, st := range f.stops {
		for _, k := range st.plan.Kill {
			if k.Restart {
				ids = append(ids, k.ID)
			}
		}
	}
	return ids
}

// any reports whether anything is in flight.
func (f *flights) any() bool { return len(f.starts)+len(f.handlers)+len(f.stops) > 0 }

// end cancels all flights and waits for them.
func (f *flights) end() {
	f.cancel()
	f.awaitBegun()
	for _, st := range f.starts {
		st.end()
	}
	f.starts, f.handlers, f.stops = nil, nil, nil
}

// names returns the containers in flight.
func (f *flights) names() []string {
	names := f.stopNames()
	for _, st := range f.starts {
		names = append(names, st.step.Container.Name)
	}
	for _, h := range f.handlers {
		names = append(names, h.step.Container.Name)
	}
	return names
}

// next returns the index of the start to complete next, -1 if all must wait. until is when a start need not wait any longer for
// one before it or for a handler, zero if only the end of a flight can end the wait. A container that starts for the first time
// waits for all handlers, because its pod may rely on what they do.
func (f *flights) next(now time.Time) (at int, until time.Time) {
	for _, h := range f.handlers {
		if until = h.began.Add(shortStep); now.Before(until) {
			return -1, until
		}
	}
	blocked := len(f.handlers) > 0
	for i, st := range f.starts {
		ready := isClosed(st.Ready())
		switch {
		case ready && (!blocked || st.step.Independent()):
			return i, time.Time{}
		case !ready && now.Before(st.began.Add(shortStep)):
			return -1, st.began.Add(shortStep)
		}
		blocked = blocked || st.step.Container.Kind != actions.EphemeralContainer
	}
	return -1, time.Time{}
}

// anyEnded reports whether a stop or a handler has ended, or a start can be completed. A wait for something else may have taken
// the value of landed.
func (f *flights) anyEnded() bool {
	at, _ := f.next(time.Now())
	return at >= 0 ||
		slices.ContainsFunc(f.stops, func(st *stopFlight) bool { return isClosed(st.done) }) ||
		slices.ContainsFunc(f.handlers, func(h *handlerFlight) bool { return isClosed(h.done) })
}

// fit reports whether a pod has the containers with a stop or a handler in flight at the same places.
func (f *flights) fit(pod *v1.Pod) bool {
	has := func(ref actions.ContainerRef) bool {
		now, found := actions.FindContainer(pod, ref.Name)
		return found && now == ref
	}
	for _, h := range f.handlers {
		if !has(h.step.Container) {
			return false
		}
	}
	for _, st := range f.stops {
		for _, k := range st.plan.Kill {
			if !has(k.Container) {
				return false
			}
		}
		for _, c := range st.plan.Clear {
			if !has(c.Container) {
				return false
			}
		}
	}
	return true
}

// giveUp ends the starts that a change has overtaken.
func (f *flights) giveUp(overtaken func(*startFlight) bool) {
	f.starts = slices.DeleteFunc(f.starts, func(st *startFlight) bool {
		if !overtaken(st) {
			return false
		}
		st.end()
		return true
	})
}

// end cancels the pull, and releases its images if no container was created from them.
func (st *startFlight) end() {
	st.cancel()
	st.Release()
}

// take removes and returns a start.
func (f *flights) take(at int) *startFlight {
	st := f.starts[at]
	f.starts = slices.Delete(f.starts, at, at+1)
	return st
}

// wait waits until a pull, a handler or a stop has ended. It returns true if a change or the time, if it is not zero, came first.
func (f *flights) wait(ctx context.Context, changed <-chan struct{}, until time.Time) bool {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-f.landed:
	case <-ctx.Done():
	case <-changed:
		return true
	case <-due:
		return true
	}
	return false
}

// startAll starts the plan's containers that need not wait. If a pull or a handler takes long, it stays in flight.
func (s *Syncer) startAll(ctx context.Context, d *decision, done outcome, inFlight *flights) outcome {
	for _, step := range d.plan.Start {
		if !slices.Contains(done.unstopped, step.Container.Name) {
			done.fail(s.beginStart(d, &done, step, inFlight))
		}
	}
	return s.completeReady(ctx, d, done, inFlight)
}

// completeReady completes the starts that need not wait. It returns when all others wait for flights that take long.
func (s *Syncer) completeReady(ctx context.Context, d *decision, done outcome, inFlight *flights) outcome {
	for {
		done = s.collectHandlers(ctx, d, done, inFlight)
		at, until := inFlight.next(time.Now())
		switch {
		case at >= 0:
			done = s.completeStart(ctx, d, done, inFlight.take(at), inFlight)
		case until.IsZero():
			return done
		default:
			inFlight.wait(ctx, nil, until)
		}
		if ctx.Err() != nil {
			return done
		}
	}
}

// completeStart starts a container whose images are present, and begins its postStart handler.
func (s *Syncer) completeStart(ctx context.Context, d *decision, done outcome, st *startFlight, inFlight *flights) outcome {
	defer st.end()
	if d.memory.hasRunSince(done.status, st.step.Container.Name) {
		done.fail(ranAfterAll(st.step))
		return done
	}
	started := st.Complete(ctx)
	s.keepMounts(d, started)
	if step := started.PostStart; step != nil {
		inFlight.handle(&handlerFlight{step: *step, started: &started, startBegan: st.began}, func() *containerstart.Error {
			return s.starter.PostStart(inFlight.ctx, st.pod, *step)
		})
		return done
	}
	return s.noteStart(ctx, d, done, started)
}

// finishHooks begins the postStart handlers of containers that run, although their start or their handler was not observed to end.
func (s *Syncer) finishHooks(d *decision, done outcome, inFlight *flights) {
	for _, step := range d.plan.PostStart {
		given := s.startable(d, &done)
		given.Sandbox.IPs = s.podIPs(d.pod, done.status)
		inFlight.handle(&handlerFlight{step: step}, func() *containerstart.Error { return s.starter.PostStart(inFlight.ctx, given, step) })
	}
}

// collectHandlers removes the handlers that have ended from the flights, and notes the starts that end with them.
func (s *Syncer) collectHandlers(ctx context.Context, d *decision, done outcome, inFlight *flights) outcome {
	for _, h := range inFlight.takeHandlers() {
		switch {
		case h.started != nil:
			h.started.Took, h.started.Err = time.Since(h.startBegan), h.failed
			done = s.noteStart(ctx, d, done, *h.started)
		case h.failed != nil:
			done.fail(s.startFailure(d.memory, h.step.Container, h.failed))
		}
		done.handled = done.handled || h.failed == nil
	}
	return done
}

// await completes the flights. It returns true as soon as the pod must be decided again before that: a container was stopped, or
// is reported and probed because its handler has ended, a status of the runtime or a result of a probe has changed, or a step is due
// that waits.
func (s *Syncer) await(ctx context.Context, d *decision, done outcome, inFlight *flights) (after outcome, again bool) {
	for inFlight.any() {
		if ctx.Err() != nil && len(done.failed) > 0 {
			return done, false // the first error is enough
		}
		if !inFlight.anyEnded() && inFlight.wait(ctx, d.report.changed, d.due(&done)) {
			return done, true
		}
		stopped, failed, unstopped := s.collectStops(ctx, d, inFlight)
		done.failed, done.unstopped = append(done.failed, failed...), append(done.unstopped, unstopped...)
		for _, name := range stopped {
			var planned bool
			done, planned = s.startStopped(d, done, name, inFlight)
			again = again || !planned
		}
		if again && ctx.Err() == nil {
			return done, true
		}
		done.handled = false
		done = s.completeReady(ctx, d, done, inFlight)
		switch {
		case ctx.Err() == nil:
			if done.handled && inFlight.any() {
				return done, true
			}
		case len(inFlight.starts) > 0:
			return s.completeStart(ctx, d, done, inFlight.take(0), inFlight), false // its error says that ctx has ended
		default:
			inFlight.awaitBegun()
			_, failed, unstopped := s.collectStops(ctx, d, inFlight)
			done.failed, done.unstopped = append(done.failed, failed...), append(done.unstopped, unstopped...)
			done = s.collectHandlers(ctx, d, done, inFlight)
		}
	}
	return done, false
}

// startStopped begins the start of the container that was stopped, if the plan has one. If it does not, the pod must be decided
// again.
func (s *Syncer) startStopped(d *decision, done outcome, name string, inFlight *flights) (after outcome, planned bool) {
	at := slices.IndexFunc(d.plan.Start, func(step actions.StartStep) bool { return step.Container.Name == name })
	if at >= 0 && done.sandbox != nil {
		done.unstopped = slices.DeleteFunc(done.unstopped, func(n string) bool { return n == name })
		done.fail(s.beginStart(d, &done, d.plan.Start[at], inFlight))
	}
	return done, at >= 0
}

// due returns when the pod must be decided again although nothing has changed, zero for never.
func (d *decision) due(done *outcome) time.Time {
	due, now := d.result(done).NextTry, time.Now()
	if joined(done.failed) != nil {
		due = memory.Earliest(due, now.Add(retryInFlight))
	}
	if soon := now.Add(shortStep); !due.IsZero() && due.Before(soon) {
		return soon
	}
	return due
}
