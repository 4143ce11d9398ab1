package podworkers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// PodState is where a pod stands, for the parts of an agent that act on it beside
// its own work: clean-up, probes, admission.
type PodState struct {
	// Known: the Set knows the pod. Phase is where the pod stands then, and Removal why it
	// is removed. Abandoned is how many abandoned calls for it have not returned: it is not
	// removed before.
	Known     bool
	Phase     Phase
	Removal   Removal
	Abandoned int
	// WaitsFor is the pod of the same name and namespace that has to end before this static pod
	// may start, empty if there is none.
	WaitsFor types.UID
	// Terminated: the pod is known to have no running container, and to get none.
	Terminated bool
	// MayHaveRunningContainers: a container of the pod may run, or may yet be
	// started.
	MayHaveRunningContainers bool
	// ShouldBeFinished: nothing is left to do for the pod, except for its removal.
	ShouldBeFinished bool
	// TerminationRequested: the pod is to stop or has stopped.
	TerminationRequested bool
	// ContainersShouldBeTerminating: the pod's containers are being stopped or have
	// been. From then on nothing of the pod may be started, by anyone.
	ContainersShouldBeTerminating bool
	// RuntimeShouldBeRemoved: the runtime's records of the pod may be removed.
	RuntimeShouldBeRemoved bool
	// ContentShouldBeRemoved: what the pod wrote on the node, its volumes and logs,
	// may be removed. It has stopped and was deleted, or it was evicted and is
	// stopping.
	ContentShouldBeRemoved bool
}

// String says where the pod stands, why, and what its removal waits for.
func (s PodState) String() string {
	if !s.Known {
		return "not known"
	}
	text := s.Phase.String()
	if s.Removal != NotRemoved {
		text += ": " + s.Removal.String()
	}
	if s.WaitsFor != "" {
		text += fmt.Sprintf("; it waits until pod %s, which has its name, has ended", s.WaitsFor)
	}
	if s.Phase >= Terminated && !s.Terminated {
		text += "; containers that run all the same are being stopped"
	}
	if s.Abandoned > 0 {
		text += fmt.Sprintf("; %d abandoned calls have not returned", s.Abandoned)
	}
	return text
}

// State returns where a pod stands. For a UID that the Set does not know: before the first
// SyncKnownPods MayHaveRunningContainers alone is true; after it ShouldBeFinished,
// ContainersShouldBeTerminating, RuntimeShouldBeRemoved and ContentShouldBeRemoved are.
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
		Known: true, Phase: p.phase, Removal: p.removal, Abandoned: len(p.abandoned),
		WaitsFor:   s.statics.before(p.fullName, p.uid, s.mayStart),
		Terminated: p.quiet(), MayHaveRunningContainers: !p.quiet(), RuntimeShouldBeRemoved: p.quiet(),
		ShouldBeFinished: p.over(), TerminationRequested: p.phase >= Terminating, ContainersShouldBeTerminating: p.stopping,
		ContentShouldBeRemoved: p.evicted || p.deleted && p.quiet(),
	}
}
