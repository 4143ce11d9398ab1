package podworkers

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Set is the state of all pods on a node. It decides which work each pod needs, and in which order;
// the caller does the work. The zero Set has no pods.
//
// A Set is a state machine: its results depend only on the earlier calls. It starts no goroutine,
// reads no clock, and must not be used concurrently.
type Set struct {
	pods    map[types.UID]*state
	statics statics
	// revision is the revision of the last work handed out.
	revision uint64
	// synced means that SyncKnownPods has been called, so the Set knows all pods on the node.
	synced bool
}

// Update records a pod update. An error names the missing field, and the update changes nothing.
func (s *Set) Update(now time.Time, u Update) (Effects, error) {
	uid, err := u.uid()
	if err != nil {
		return Effects{}, err
	}
	if u.Pod == nil && u.Type != Kill {
		return stopped(u.Stop), nil
	}
	p, known := s.pods[uid]
	if !known {
		p = s.add(first(uid, u))
	}
	e := p.update(u, !known, now)
	s.queueStatic(p)
	return e, nil
}

func (s *Set) add(p *state) *state {
	if s.pods == nil {
		s.pods = map[types.UID]*state{}
	}
	s.pods[p.uid] = p
	return p
}

// queueStatic enqueues a static pod under its full name. If the pod must stop, and the runtime has containers in it,
// queueStatic blocks the name for other pods until the pod has stopped.
func (s *Set) queueStatic(p *state) {
	switch {
	case p.inRuntime && p.phase != Syncing:
		if p.phase == Terminating {
			s.statics.block(p.fullName, p.uid)
		}
	case p.pending != nil && runtime.IsStatic(p.pending.Pod):
		s.statics.queue(p.fullName, p.uid)
	}
}

// Next returns the next work of a pod. ok is false if the pod has no work, or if work of it is in
// flight. A pod that must stop before it has started needs no work: Next finishes it and returns the
// effects.
func (s *Set) Next(now time.Time, uid types.UID) (w Work, ok bool, e Effects) {
	p, known := s.pods[uid]
	if !known {
		return Work{}, false, Effects{}
	}
	return s.next(now, p)
}

func (s *Set) next(now time.Time, p *state) (w Work, ok bool, e Effects) {
	switch {
	case !p.ready():
		return Work{}, false, Effects{}
	case p.mustStopAgain():
		s.revision++
		return p.beginStopAgain(s.revision), true, Effects{}
	case p.phase.IsOrphan():
		s.revision++
		return p.remove(s.revision), true, Effects{}
	case !p.waitsForName(): // it begins
	case p.phase != Syncing:
		return Work{}, false, s.finishUnstarted(p)
	case !s.statics.start(p.fullName, p.uid, s.mayStart):
		return Work{}, false, Effects{}
	}
	s.revision++
	return p.begin(s.revision, now), true, Effects{}
}

// mayStart reports whether a pod in the queue for its name still has to start.
func (s *Set) mayStart(uid types.UID) bool {
	p, known := s.pods[uid]
	return known && !p.started
}

// finishUnstarted ends a pod that never started.
func (s *Set) finishUnstarted(p *state) Effects {
	e := p.finish()
	e.Successors = s.statics.end(p.fullName, p.uid, s.mayStart)
	return e
}

// Done records the outcome of work. It ignores the outcome of abandoned work, but the removal of the
// pod waits until all abandoned work has returned.
func (s *Set) Done(w Work, o Outcome) Effects {
	p, inFlight := s.working(w)
	if inFlight {
		return s.done(p, w, o)
	}
	if p == nil || !p.returned(w.revision) {
		return Effects{}
	}
	return Effects{Work: p.ready()}
}

// working returns the work's pod, and reports whether the work is in flight.
func (s *Set) working(w Work) (p *state, inFlight bool) {
	p, known := s.pods[w.UID]
	return p, known && p.inFlight != 0 && p.inFlight == w.revision
}

func (s *Set) done(p *state, w Work, o Outcome) Effects {
	switch {
	case p.stoppingAgain():
		return s.stoppedAgain(p, w.RuntimePod, o)
	case p.phase == Removing:
		return s.removed(p, o)
	}
	next := p.pending
	e := p.done(o)
	if p.phase != Finished {
		return e
	}
	e.Successors = s.statics.end(p.fullName, p.uid, s.mayStart)
	if w.Type == SyncTerminatingRuntimePod {
		p.successor = cmp.Or(p.successor, next)
		p.orphan(Unwanted) // no source knows the pod
		e.Work = p.ready()
	}
	return e
}

// renew adds a new pod whose update arrived while the agent stopped or removed the old pod with the same
// UID. It reports whether the new pod has work.
func (s *Set) renew(uid types.UID, last *Update) bool {
	if last == nil || last.Pod == nil {
		return false
	}
	u := *last
	u.Stop = nil // answered when the old pod stopped
	p := s.add(first(uid, u))
	e := p.update(u, true, time.Time{})
	s.queueStatic(p)
	return e.Work
}

// Abandon gives up on work that was interrupted and does not return, so that the pod can get other
// work. See Done for its late outcome.
func (s *Set) Abandon(w Work) Effects {
	p, inFlight := s.working(w)
	if !inFlight {
		return Effects{}
	}
	if p.stoppingAgain() {
		p.mayRun = w.RuntimePod
	}
	p.inFlight, p.abandoned = 0, append(p.abandoned, w.revision)
	p.repeat()
	return Effects{Work: p.ready()}
}

// Requeue retries the last work of a pod, unless an update is pending.
func (s *Set) Requeue(uid types.UID) Effects {
	p, known := s.pods[uid]
	if !known {
		return Effects{}
	}
	p.repeat()
	return Effects{Work: p.ready()}
}
