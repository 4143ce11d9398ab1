package podworkers

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Set is the state of all pods of a node. It decides what is to be done for
// each of them and in which order, and does none of it. The zero Set has no
// pods.
//
// A Set is a state machine: what it answers depends on the calls made before,
// and on nothing else. It starts no goroutine, reads no clock and must not be
// used concurrently.
type Set struct {
	pods    map[types.UID]*state
	statics statics
	// revision is that of the last work handed out.
	revision Revision
	// synced: Known has been called, so a pod that is not here is not on the node.
	synced bool
}

// Update takes news of a pod. The error names what makes an update unusable;
// such an update changes nothing.
func (s *Set) Update(now time.Time, u Update) (Effects, error) {
	uid, err := u.uid()
	if err != nil {
		return Effects{}, err
	}
	if u.Pod != nil {
		u.RuntimePod = nil
	} else if u.Type != Kill {
		return stopped(u.Stop), nil
	}
	p, known := s.pods[uid]
	if !known {
		p = s.add(uid, first(u))
	}
	next, e := p.update(u, !known, now)
	*p = next
	s.takeTurns(uid, p)
	return e, nil
}

// takeTurns has a static pod wait for its turn, or keeps its full name from others
// while what the runtime has of it is stopped.
func (s *Set) takeTurns(uid types.UID, p *state) {
	switch {
	case p.inRuntime:
		if p.phase == Terminating {
			s.statics.block(p.fullName, uid)
		}
	case p.pending != nil && isStatic(p.pending.Pod):
		s.statics.queue(p.fullName, uid)
	}
}

func (s *Set) add(uid types.UID, p state) *state {
	if s.pods == nil {
		s.pods = map[types.UID]*state{}
	}
	s.pods[uid] = &p
	return &p
}

func (u Update) uid() (types.UID, error) {
	switch {
	case u.Pod != nil && u.Pod.UID != "":
		return u.Pod.UID, nil
	case u.Pod != nil:
		return "", fmt.Errorf("update: pod %s/%s has no metadata.uid", u.Pod.Namespace, u.Pod.Name)
	case u.RuntimePod != nil && u.RuntimePod.UID != "":
		return u.RuntimePod.UID, nil
	case u.RuntimePod != nil:
		return "", fmt.Errorf("update: runtime pod %s/%s has no UID", u.RuntimePod.Namespace, u.RuntimePod.Name)
	}
	return "", errors.New("update: one of Pod and RuntimePod is required")
}

// Next returns the work that a pod has, if it has any and none is in flight. A
// pod that may never start any more is finished instead, which the effects tell.
func (s *Set) Next(uid types.UID) (w Work, ok bool, e Effects) {
	p, known := s.pods[uid]
	if !known || !p.ready() {
		return Work{}, false, Effects{}
	}
	if p.toSweep() {
		s.revision++
		*p, w = p.sweep(s.revision)
		w.UID = uid
		return w, true, Effects{}
	}
	if !p.started && !p.inRuntime && isStatic(p.pending.Pod) {
		if p.phase != Syncing {
			return Work{}, false, s.finish(uid, p)
		}
		if !s.statics.start(p.fullName, uid, s.mayStart) {
			return Work{}, false, Effects{}
		}
	}
	s.revision++
	*p, w = p.begin(s.revision)
	w.UID = uid
	return w, true, Effects{}
}

// mayStart reports whether a pod waiting for its turn is still to start.
func (s *Set) mayStart(uid types.UID) bool {
	p, known := s.pods[uid]
	return known && p.phase == Syncing && !p.started
}

// Done takes the outcome of work. Work that is no longer in flight, because it
// was abandoned or its pod forgotten, has no effect.
func (s *Set) Done(w Work, o Outcome) Effects {
	p, known := s.pods[w.UID]
	if !known || p.inFlight == 0 || p.inFlight != w.Revision {
		return Effects{}
	}
	if p.sweeping() {
		next, e := p.swept(w.RuntimePod, o)
		*p = next
		return e
	}
	news := p.pending
	next, e := p.done(o)
	*p = next
	if p.phase != Finished {
		return e
	}
	e.Successors = s.statics.end(p.fullName, w.UID, s.mayStart)
	if w.Type == SyncTerminatingRuntimePod {
		delete(s.pods, w.UID) // no source has it that could still ask
		e.Work = s.renew(w.UID, news)
	}
	return e
}

// renew begins a pod anew with the news that came while what the runtime had of
// its UID was stopped. It reports whether there was any.
func (s *Set) renew(uid types.UID, news *Update) bool {
	if news == nil || news.Pod == nil {
		return false
	}
	u := *news
	u.Stop = nil // answered with what was stopped
	next, e := first(u).update(u, true, time.Time{})
	s.takeTurns(uid, s.add(uid, next))
	return e.Work
}

// Abandon gives up on work that was interrupted and does not return, so that
// the pod can go on. Its outcome, when it comes, is dropped.
func (s *Set) Abandon(w Work) Effects {
	p, known := s.pods[w.UID]
	if !known || p.inFlight == 0 || p.inFlight != w.Revision {
		return Effects{}
	}
	if p.sweeping() && p.stray == nil {
		p.stray = w.RuntimePod
	}
	p.inFlight = 0
	*p = p.repeat()
	return Effects{Work: p.ready()}
}

// Again makes a pod do its last work once more, unless it has news to work on.
func (s *Set) Again(uid types.UID) Effects {
	p, known := s.pods[uid]
	if !known {
		return Effects{}
	}
	*p = p.repeat()
	return Effects{Work: p.ready()}
}

// finish ends a pod that never started.
func (s *Set) finish(uid types.UID, p *state) Effects {
	next, e := p.finish()
	*p = next
	e.Successors = s.statics.end(p.fullName, uid, s.mayStart)
	return e
}

// phase returns the phase of a pod, if the pod is known.
func (s *Set) phase(uid types.UID) (phase Phase, known bool) {
	p, known := s.pods[uid]
	if !known {
		return 0, false
	}
	return p.phase, true
}
