package podworkers

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// KnownPod is one pod's state after Set.SyncKnownPods.
type KnownPod struct {
	UID   types.UID
	Phase Phase
	// Orphan means that no source wants the pod any more.
	Orphan bool
	// HasPod means that the Set has the pod's definition.
	HasPod bool
	// Static means that the pod is a static pod.
	Static bool
	// Effects list what the caller must do for the pod.
	Effects Effects
}

// SyncKnownPods reports all pods that the sources want. All other pods must stop. A finished pod is
// orphaned if no source wants it, or if a source wants a new pod with its UID. An unwanted pod that never
// started is orphaned, too. RemovePod is the last work of an orphaned pod. If containers in a finished pod
// are being stopped again, the pod is orphaned after that, unless a source has reported it meanwhile.
//
// known are the pods that are not orphaned; orphaned are the pods that this call has orphaned, with
// UID, Phase, Orphan and Effects. Both are sorted by UID.
func (s *Set) SyncKnownPods(desired []types.UID) (known, orphaned []KnownPod) {
	s.synced = true
	wanted := make(map[types.UID]struct{}, len(desired))
	for _, uid := range desired {
		wanted[uid] = struct{}{}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		_, want := wanted[uid]
		p := s.pods[uid]
		if !want {
			p.successor = nil
		}
		if p.phase.IsOrphan() {
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
			s.queueStatic(p)
		}
		k.Phase = p.phase
		pod := p.definition()
		k.HasPod, k.Static = pod != nil, runtime.IsStatic(pod)
		known = append(known, k)
	}
	return known, orphaned
}

// removable reports whether the pod may be removed: it has finished or never started, and no source needs
// its history.
func (s *state) removable() bool {
	if s.phase == Finished {
		return s.isFinished() && (s.unwanted || s.recreated)
	}
	return s.unwanted && !s.started && !s.inRuntime
}

// stopUnwanted is the transition of a pod that no source wants. If work in flight stops the pod already, it does not
// repeat that work.
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
