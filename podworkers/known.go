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

// SyncKnownPods tells the Set which pods the sources want, all of them. The others have to
// stop. Pods that have finished are orphaned if no source wants them, or if a source wants
// a new pod with their UID, and so are unwanted pods that never started: RemovePod is their
// last work. One of which something still runs is orphaned when that has been stopped, unless
// a source has reported it again.
//
// known are the pods that are not orphaned; orphaned are those that this call has orphaned,
// of which only UID, Phase, Orphan and Effects are set. Both are sorted by UID.
func (s *Set) SyncKnownPods(desired []types.UID) (known, orphaned []KnownPod) {
	s.synced = true
	wanted := make(map[types.UID]struct{}, len(desired))
	for _, uid := range desired {
		wanted[uid] = struct{}{}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		_, want := wanted[uid]
		p := s.pods[uid]
		if p.phase > Finished {
			if !want {
				p.successor = nil
			}
			continue
		}
		k := KnownPod{UID: uid, Orphan: !want}
		p.unwanted = !want
		if p.removable() {
			k.Effects = s.orphan(p)
			k.Phase = p.phase
			orphaned = append(orphaned, k)
			continue
		}
		if !want {
			k.Effects = p.stopUnwanted()
			s.takeTurns(p)
		}
		k.Phase = p.phase
		pod := p.definition()
		k.HasPod, k.Static = pod != nil, runtime.IsStatic(pod)
		known = append(known, k)
	}
	return known, orphaned
}

// removable reports whether the pod has ended, or never began, and nothing is lost with its
// history.
func (s *state) removable() bool {
	if s.phase == Finished {
		return s.over() && (s.unwanted || s.again)
	}
	return s.unwanted && !s.started && !s.inRuntime
}

// stopUnwanted is the transition on the loss of the last source. Work that stops the pod
// already is not done once more for it.
func (s *state) stopUnwanted() Effects {
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
