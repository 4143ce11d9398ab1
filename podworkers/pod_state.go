package podworkers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// PodState is a pod's state, for parts of an agent that act on pods outside of a Syncer: cleanup,
// probes, admission.
type PodState struct {
	// Known means that the Set knows the pod. Otherwise Phase and Removal are zero. Removal is
	// the reason why the pod is removed.
	Known   bool
	Phase   Phase
	Removal Removal
	// Terminated means that no container in the pod runs, and none will start.
	Terminated bool
	// MayHaveRunningContainers means that a container in the pod may run or start.
	MayHaveRunningContainers bool
	// ShouldBeFinished means that only the pod's removal is left to do.
	ShouldBeFinished bool
	// TerminationRequested means that the pod must stop, or has stopped.
	TerminationRequested bool
	// ContainersShouldBeTerminating means that the agent stops the pod's containers, or has stopped them.
	// No part of the agent may start a container in the pod any more.
	ContainersShouldBeTerminating bool
	// RuntimeShouldBeRemoved means that the runtime's records of the pod may be removed.
	RuntimeShouldBeRemoved bool
	// ContentShouldBeRemoved means that the pod's volumes and logs may be removed. The pod was deleted
	// and has stopped, or it was evicted.
	ContentShouldBeRemoved bool

	// abandoned counts the abandoned calls that have not returned; the removal waits for them.
	abandoned int
	// waitsFor is the pod with the same name and namespace that must end before this static pod may start, empty
	// if there is none.
	waitsFor types.UID
}

// String returns the phase, a removal's reason, and what the pod waits for.
func (s PodState) String() string {
	if !s.Known {
		return "not known"
	}
	text := s.Phase.String()
	if s.Removal != NotRemoved {
		text += ": " + s.Removal.String()
	}
	if s.waitsFor != "" {
		text += fmt.Sprintf("; it waits until pod %s, which has its name, has ended", s.waitsFor)
	}
	if s.Phase.HasStopped() && !s.Terminated {
		text += "; containers that were found running are being stopped"
	}
	if s.abandoned > 0 {
		text += fmt.Sprintf("; %d abandoned calls have not returned", s.abandoned)
	}
	return text
}

// State returns a pod's state. If the Set does not know the UID, MayHaveRunningContainers alone is true
// before the first SyncKnownPods; after it, ShouldBeFinished, ContainersShouldBeTerminating,
// RuntimeShouldBeRemoved and ContentShouldBeRemoved are true.
func (s *Set) State(uid types.UID) PodState {
	p, known := s.pods[uid]
	if !known {
		return PodState{
			MayHaveRunningContainers: !s.synced,
			ShouldBeFinished:         s.synced, ContainersShouldBeTerminating: s.synced,
			RuntimeShouldBeRemoved: s.synced, ContentShouldBeRemoved: s.synced,
		}
	}
	return PodState{
		Known: true, Phase: p.phase, Removal: p.removal, abandoned: len(p.abandoned),
		waitsFor:   s.statics.before(p.fullName, p.uid, s.mayStart),
		Terminated: p.hasStopped(), MayHaveRunningContainers: !p.hasStopped(), RuntimeShouldBeRemoved: p.hasStopped(),
		ShouldBeFinished: p.isFinished(), TerminationRequested: p.phase != Syncing, ContainersShouldBeTerminating: p.stopping,
		ContentShouldBeRemoved: p.evicted || p.deleted && p.hasStopped(),
	}
}
