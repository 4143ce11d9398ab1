package podworkers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// scheduler decides which work starts, ends early and is retried when. Workers.mu guards all
// of it, its workers and their jobs included. No method blocks, calls the embedder or reads the
// clock: a change contains the time, and collects reports for after the lock is released.
type scheduler struct {
	// config is never written to.
	config *Config
	stage  stage
	set    Set
	pods   map[types.UID]*worker // those the Set knows
	timers timers
	// base is the context of all work: Run's, without its end.
	base  context.Context
	ready ready
	// spare is a job that has returned and can be used again.
	spare    *job
	requests requests
	drain    *drain
}

// stage is how far Workers are in their own life.
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

// acceptable returns the UID of the pod of an update, or why the update is refused.
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

// update gives an update to the Set. If answer is not nil, it gets one answer when
// the pod has stopped, under the ID that is returned.
func (s *scheduler) update(u Update, answer chan<- error, then *change) (id StopID, err error) {
	uid, err := s.acceptable(u)
	if err != nil {
		return 0, err
	}
	if u.Stop != nil || answer != nil {
		u.Stop = s.requests.add(u.Stop, answer)
		id = u.Stop.ID
	}
	e, err := s.set.Update(then.now, u)
	if err != nil {
		return 0, err
	}
	s.follow(uid, e, then)
	return id, nil
}

// follow does what a change of the Set asks for.
func (s *scheduler) follow(uid types.UID, e Effects, then *change) {
	s.followFor(s.pods[uid], uid, e, then)
}

func (s *scheduler) followFor(p *worker, uid types.UID, e Effects, then *change) {
	for _, id := range e.Stopped {
		s.requests.answer(id, nil)
	}
	p = s.track(p, uid, then)
	if p != nil && e.Interrupt {
		s.interrupt(p, then.now)
	}
	if p != nil && e.Work {
		s.ready.add(p)
	}
	for _, successor := range e.Successors {
		s.ready.add(s.pods[successor])
	}
}

// track brings a pod's worker in line with the Set, and makes one for a new pod. It
// returns nil if the Set does not know the pod.
func (s *scheduler) track(p *worker, uid types.UID, then *change) *worker {
	if p == nil || p.state.phase == Forgotten {
		if p = s.rebind(p, uid, then); p == nil {
			return nil
		}
	}
	then.moved = p.moveOn(then.moved)
	if p.state.over() {
		s.drain.finished(uid)
	}
	return p
}

// rebind forgets a pod's worker and makes another one if the Set knows a pod of the
// UID.
func (s *scheduler) rebind(old *worker, uid types.UID, then *change) *worker {
	p := &worker{uid: uid, state: s.set.pods[uid]}
	if old != nil {
		p.syncedAt = old.syncedAt
		s.forget(old, then)
	}
	if p.state == nil {
		return nil
	}
	s.pods[uid] = p
	then.seen = append(then.seen, uid)
	return p
}

// forget drops a pod that the Set has forgotten.
func (s *scheduler) forget(p *worker, then *change) {
	then.forgotten = p.moveOn(then.forgotten)
	s.timers.remove(p)
	p.queued = nowhere
	delete(s.pods, p.uid)
	s.drain.finished(p.uid)
}

// fire starts everything that is due.
func (s *scheduler) fire(then *change) {
	for p := s.timers.next(then.now); p != nil; p = s.timers.next(then.now) {
		if p.job != nil {
			s.abandon(p, then)
		} else {
			s.follow(p.uid, s.set.Requeue(p.uid), then)
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
