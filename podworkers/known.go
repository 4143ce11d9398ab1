package podworkers

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// KnownPod is what a Set knows of one pod after Set.SyncKnownPods.
type KnownPod struct {
	UID   types.UID
	Phase Phase
	// Orphan: no source wants the pod any more.
	Orphan bool
	// HasPod: the pod's definition is known, not only its UID.
	HasPod bool
	// Static: the pod comes from a source on the node.
	Static bool
	// Effects are what follows for the pod.
	Effects Effects
}

// SyncKnownPods tells the Set which pods the sources want, all of them: those it knows
// of besides are orphans and have to stop. Pods that have finished are forgotten
// if no source wants them, or if a source wants a pod with their UID anew; so
// are those that never started.
//
// known are the pods still there; forgotten are those dropped by this call, of which only
// UID, Orphan and Effects are set. Both are sorted by UID.
func (s *Set) SyncKnownPods(desired []types.UID) (known, forgotten []KnownPod) {
	s.synced = true
	wanted := make(map[types.UID]struct{}, len(desired))
	for _, uid := range desired {
		wanted[uid] = struct{}{}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		_, want := wanted[uid]
		p := s.pods[uid]
		k := KnownPod{UID: uid, Orphan: !want}
		if p.forgettable(!want) {
			k.Effects = s.forget(p)
			forgotten = append(forgotten, k)
			continue
		}
		if !want {
			k.Effects = p.orphan()
			s.takeTurns(p)
		}
		k.Phase = p.phase
		pod := p.definition()
		k.HasPod, k.Static = pod != nil, runtime.IsStatic(pod)
		known = append(known, k)
	}
	return known, forgotten
}

// forgettable reports whether nothing is lost with the pod's history.
func (s *state) forgettable(orphan bool) bool {
	if s.phase == Finished {
		return s.over() && (orphan || s.again)
	}
	return orphan && !s.started && !s.inRuntime
}

// orphan is the transition on the loss of the last source. Work that stops the pod
// already is not done once more for it.
func (s *state) orphan() Effects {
	s.deleted = true
	before := s.phase
	if s.phase == Syncing {
		s.phase = Terminating
		s.grace = effectiveGrace(0, s.definition(), nil)
	}
	if before == Syncing || s.inFlight == 0 {
		s.repeat()
	}
	return Effects{Work: s.ready(), Interrupt: s.inFlight != 0 && before == Syncing}
}

func (s *Set) forget(p *state) Effects {
	s.remove(p)
	return Effects{Stopped: p.waiting, Successors: s.statics.end(p.fullName, p.uid, s.mayStart)}
}
