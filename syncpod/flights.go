package syncpod

import (
	"context"
	"slices"
	"time"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
)

// patience is how long later steps of a plan wait for a pull. After it, the steps that do not depend on the pull are carried out,
// and the next change of the pod leads to another decision.
const patience = time.Second

// retryInFlight is when a step that failed is tried again beside a pull, if the failure has no back-off.
const retryInFlight = 10 * time.Second

// flights are a SyncPod's starts whose images are being pulled, and its stops. While they last, further decisions leave out their
// containers, so that a crashed container restarts at its time although another container's image takes minutes. All of them end
// with the SyncPod.
type flights struct {
	ctx    context.Context
	cancel context.CancelFunc
	starts []*startFlight // in the order of their plans
	stops  []*stopFlight
	// landed has a value when a pull or a stop has ended.
	landed chan struct{}
}

// startFlight is one start.
type startFlight struct {
	*containerstart.Start
	step  actions.StartStep
	began time.Time
}

// newFlights returns flights that end with ctx.
func newFlights(ctx context.Context) *flights {
	f := &flights{landed: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// add adds a start, which the caller has begun with the context of the flights.
func (f *flights) add(begun *containerstart.Start, step actions.StartStep) {
	f.starts = append(f.starts, &startFlight{begun, step, time.Now()})
	go func() {
		<-begun.Ready()
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

// stopFlight is the stop or removal of the instances of one container.
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

// hasEnded reports whether the stop has ended.
func (st *stopFlight) hasEnded() bool {
	select {
	case <-st.done:
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
	return slices.ContainsFunc(stops, func(st *stopFlight) bool { return !st.hasEnded() })
}

// awaitStops waits for all stops.
func (f *flights) awaitStops() {
	for _, st := range f.stops {
		<-st.done
	}
}

// takeStops removes and returns the stops that have ended.
func (f *flights) takeStops() (ended []*stopFlight) {
	f.stops = slices.DeleteFunc(f.stops, func(st *stopFlight) bool {
		if st.hasEnded() {
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
func (f *flights) any() bool { return len(f.starts)+len(f.stops) > 0 }

// end cancels all flights and waits for them.
func (f *flights) end() {
	f.cancel()
	f.awaitStops()
	for _, st := range f.starts {
		st.Release()
	}
	f.starts, f.stops = nil, nil
}

// names returns the containers in flight.
func (f *flights) names() []string {
	names := f.stopNames()
	for _, st := range f.starts {
		names = append(names, st.step.Container.Name)
	}
	return names
}

// isReady reports whether the images are present, or cannot be pulled now.
func (st *startFlight) isReady() bool {
	select {
	case <-st.Ready():
		return true
	default:
		return false
	}
}

// next removes and returns the start to complete next, nil if all must wait. until is when a start need not wait any longer for
// one before it, zero if only a pull can end the wait.
func (f *flights) next(now time.Time) (st *startFlight, until time.Time) {
	blocked := false
	for i, st := range f.starts {
		switch {
		case st.isReady() && (!blocked || st.step.Independent()):
			f.starts = slices.Delete(f.starts, i, i+1)
			return st, time.Time{}
		case !st.isReady() && now.Before(st.began.Add(patience)):
			return nil, st.began.Add(patience)
		}
		blocked = blocked || st.step.Container.Kind != actions.EphemeralContainer
	}
	return nil, time.Time{}
}

// pop removes and returns the first start.
func (f *flights) pop() *startFlight {
	st := f.starts[0]
	f.starts = slices.Delete(f.starts, 0, 1)
	return st
}

// wait waits until a pull or a stop has ended. It returns true if a change or the time, if it is not zero, came first.
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

// startAll starts the plan's containers that need not wait. If a pull takes long, its start stays in flight.
func (s *Syncer) startAll(ctx context.Context, d *decision, done outcome, inFlight *flights) outcome {
	for _, step := range d.plan.Start {
		if !slices.Contains(done.unstopped, step.Container.Name) {
			done.fail(s.beginStart(d, &done, step, inFlight))
		}
	}
	return s.completeReady(ctx, d, done, inFlight)
}

// completeReady completes the starts that need not wait. It returns when all others wait for pulls that take long.
func (s *Syncer) completeReady(ctx context.Context, d *decision, done outcome, inFlight *flights) outcome {
	for {
		st, until := inFlight.next(time.Now())
		switch {
		case st != nil:
			done = s.complete(ctx, d, done, st)
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

// complete starts a container whose images are present.
func (s *Syncer) complete(ctx context.Context, d *decision, done outcome, st *startFlight) outcome {
	defer st.Release()
	name := st.step.Container.Name
	if d.memory.hasRunSince(done.status, name) {
		done.fail(ranAfterAll(st.step))
		return done
	}
	failed := s.noteStart(ctx, d, &done, st.Complete(ctx))
	if failed == nil {
		done.started = append(done.started, name)
	}
	done.fail(failed)
	return done
}

// await completes the flights. It returns true as soon as the pod must be decided again before that: a container was stopped, a
// status of the runtime or a result of a probe has changed, or a step is due that waits.
func (s *Syncer) await(ctx context.Context, d *decision, done outcome, inFlight *flights) (after outcome, again bool) {
	for inFlight.any() {
		if ctx.Err() != nil && len(done.failed) > 0 {
			return done, false // the first error is enough
		}
		if inFlight.wait(ctx, d.report.changed, d.due(&done)) {
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
		done = s.completeReady(ctx, d, done, inFlight)
		switch {
		case ctx.Err() == nil:
		case len(inFlight.starts) > 0:
			return s.complete(ctx, d, done, inFlight.pop()), false // its error says that ctx has ended
		default:
			inFlight.awaitStops()
			_, failed, unstopped := s.collectStops(ctx, d, inFlight)
			done.failed, done.unstopped = append(done.failed, failed...), append(done.unstopped, unstopped...)
		}
	}
	return done, false
}

// startStopped begins the start of a container that was stopped, if the plan has one. If it does not, the pod must be decided
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
	if soon := now.Add(patience); !due.IsZero() && due.Before(soon) {
		return soon
	}
	return due
}
