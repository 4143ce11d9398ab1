package podworkers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// scheduler decides when work starts, is cancelled and is retried. Workers.mu guards the scheduler,
// its workers and their jobs. No method blocks, calls the embedder or reads the
// clock: changes have the time, and collect reports until the lock is released.
type scheduler struct {
	// config is never written to.
	config *Config
	stage  stage
	set    Set
	pods   map[types.UID]*worker // those the Set knows
	timers timers
	// base is the context of all work: Run's context, without its cancellation.
	base  context.Context
	ready ready
	// spare is a finished job that can be reused.
	spare    *job
	requests requests
	drain    *drain
}

// stage is the stage of the Workers themselves.
type stage uint8

const (
	notRun stage = iota
	running
	stopping
)

func newScheduler(c *Config) scheduler {
	return scheduler{
		config:   c,
		pods:     map[types.UID]*worker{},
		timers:   timers{earlier: make(chan struct{}, 1)},
		ready:    ready{limit: c.MaxConcurrent},
		requests: requests{waiting: map[StopID]chan<- error{}},
	}
}

// acceptable returns the UID of an update's pod, or the reason why the update is rejected.
func (s *scheduler) acceptable(u Update) (types.UID, error) {
	if s.stage == stopping {
		return "", ErrStopped
	}
	uid, err := u.uid()
	if err != nil {
		return "", err
	}
	if s.drain != nil && u.Type != Kill && s.pods[uid] == nil {
		return "", ErrDraining
	}
	return uid, nil
}

// update passes an update to the Set. If answer is not nil, it gets one answer when the
// pod has stopped; id is the ID of that request.
func (s *scheduler) update(u Update, answer chan<- error, changes *changes) (id StopID, err error) {
	uid, err := s.acceptable(u)
	if err != nil {
		return 0, err
	}
	if u.Stop != nil || answer != nil {
		u.Stop = s.requests.add(u.Stop, answer)
		id = u.Stop.ID
	}
	e, err := s.set.Update(changes.now, u)
	if err != nil {
		return 0, err
	}
	s.apply(uid, e, changes)
	return id, nil
}

// apply carries out the effects of a change to the Set.
func (s *scheduler) apply(uid types.UID, e Effects, changes *changes) {
	s.applyTo(s.pods[uid], uid, e, changes)
}

func (s *scheduler) applyTo(p *worker, uid types.UID, e Effects, changes *changes) {
	for _, id := range e.Stopped {
		s.requests.answer(id, nil)
	}
	p = s.track(p, uid, changes)
	if p != nil && e.Interrupt {
		s.interrupt(p, changes.now)
	}
	if p != nil && e.Work {
		s.ready.add(p)
	}
	for _, successor := range e.Successors {
		s.ready.add(s.pods[successor])
	}
}

// track updates a pod's worker after a change to the Set, and creates one for a new pod. It
// returns nil if the Set does not know the pod.
func (s *scheduler) track(p *worker, uid types.UID, changes *changes) *worker {
	if p == nil || p.state.phase == Forgotten {
		if p = s.rebind(p, uid, changes); p == nil {
			return nil
		}
	}
	changes.moves = p.appendMoves(changes.moves)
	if p.state.isFinished() {
		s.drain.finished(uid)
	}
	return p
}

// rebind forgets a pod's worker, and creates another one if the Set has a pod with that
// UID.
func (s *scheduler) rebind(old *worker, uid types.UID, changes *changes) *worker {
	p := &worker{uid: uid, state: s.set.pods[uid]}
	if old != nil {
		p.syncedAt = old.syncedAt
		s.forget(old, changes)
	}
	if p.state == nil {
		return nil
	}
	s.pods[uid] = p
	changes.seen = append(changes.seen, uid)
	return p
}

// forget drops a pod that the Set has forgotten.
func (s *scheduler) forget(p *worker, changes *changes) {
	changes.forgotten = p.appendMoves(changes.forgotten)
	s.timers.remove(p)
	p.queued = notQueued
	delete(s.pods, p.uid)
	s.drain.finished(p.uid)
}

// fire starts everything that is due.
func (s *scheduler) fire(changes *changes) {
	for p := s.timers.next(changes.now); p != nil; p = s.timers.next(changes.now) {
		if p.job != nil {
			s.abandon(p, changes)
		} else {
			s.apply(p.uid, s.set.Requeue(p.uid), changes)
		}
	}
}

// cancelAll cancels the work of all pods. No other work starts.
func (s *scheduler) cancelAll() {
	s.stage = stopping
	for _, p := range s.pods {
		if p.job != nil {
			p.job.interrupted = true
			p.job.cancel(ErrStopped)
		}
	}
}
