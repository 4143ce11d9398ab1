package podworkers

import (
	"slices"
	"strings"
)

// RemoveOrphan removes a pod that the Set does not know: no source wants it, none of its containers runs, and
// the node still has ended containers, files or records for it. A pod that the Set knows is ignored: its own
// phases lead to its removal.
func (s *Set) RemoveOrphan(pod RuntimePod) Effects {
	if _, known := s.pods[pod.UID]; known || pod.UID == "" {
		return Effects{}
	}
	p := s.add(&state{uid: pod.UID, fullName: fullName(Update{RuntimePod: &pod}), inRuntime: true})
	p.orphan(Unknown)
	return Effects{Work: true}
}

// orphan starts the removal of a pod that has finished or never started.
func (s *Set) orphan(p *state) Effects {
	why := Replaced
	if p.unwanted {
		why = Unwanted
	}
	p.orphan(why)
	return Effects{Work: p.ready(), Stopped: p.takeWaiting(), Successors: s.statics.end(p.fullName, p.uid, s.mayStart)}
}

// orphan is the transition to the pod's removal.
func (s *state) orphan(why Removal) {
	s.phase, s.removal, s.toRemove = Orphaned, why, true
	s.deleted, s.stopping = true, true
	if s.pending != nil {
		s.active, s.pending = s.pending, nil
	}
}

// succeed stores an update to a new pod with the UID of this one. A new pod that must stop before it
// has started never starts.
func (s *state) succeed(u Update) {
	switch {
	case u.Type == Kill:
		s.successor = nil
	case u.Pod != nil && (u.Type == Create || s.successor != nil):
		u.Stop, u.RuntimePod, u.Status = nil, nil, nil // they are about this pod
		s.successor = &u
	}
}

// remove is the transition to the work that removes the pod.
func (s *state) remove(revision uint64) Work {
	s.phase, s.toRemove = Removing, false
	s.inFlight, s.inFlightType = revision, RemovePod
	w := Work{UID: s.uid, Type: RemovePod, revision: revision, Pod: s.definition(), Removal: s.removal}
	if w.Pod == nil {
		name, namespace, _ := strings.Cut(s.fullName, "_")
		w.RuntimePod = &RuntimePod{UID: s.uid, Name: name, Namespace: namespace}
	}
	return w
}

// removed is the transition at the end of RemovePod. The pod is forgotten unless a running container was
// found meanwhile.
func (s *Set) removed(p *state, o Outcome) Effects {
	p.inFlight = 0
	switch {
	case p.mayRun != nil:
		p.toRemove = true
		return Effects{Work: p.ready()}
	case o == Failed:
		return Effects{Retry: true}
	}
	p.phase = Forgotten
	delete(s.pods, p.uid)
	return Effects{Work: s.renew(p.uid, p.successor)}
}

// returned records the return of abandoned work. It reports whether the work belonged to the pod.
func (s *state) returned(r uint64) bool {
	i := slices.Index(s.abandoned, r)
	if i >= 0 {
		s.abandoned = slices.Delete(s.abandoned, i, i+1)
	}
	return i >= 0
}
