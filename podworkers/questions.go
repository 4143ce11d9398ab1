package podworkers

import "k8s.io/apimachinery/pkg/types"

// The questions below are asked by the parts of an agent that act on a pod
// beside its own work: clean-up, probes, admission. A pod that the Set does not
// know is taken to be possibly on the node until Known has been called once, and
// to be gone from then on.

// Terminated reports whether the pod is known to have no running container, and
// to get none.
func (s *Set) Terminated(uid types.UID) bool {
	p, known := s.pods[uid]
	return known && p.quiet()
}

// MayHaveRunningContainers reports whether a container of the pod may run, or
// may yet be started.
func (s *Set) MayHaveRunningContainers(uid types.UID) bool {
	p, known := s.pods[uid]
	if !known {
		return !s.synced
	}
	return !p.quiet()
}

// ShouldBeFinished reports whether nothing is left to do for the pod.
func (s *Set) ShouldBeFinished(uid types.UID) bool {
	p, known := s.pods[uid]
	if !known {
		return s.synced
	}
	return p.over()
}

// TerminationRequested reports whether the pod is to stop or has stopped.
func (s *Set) TerminationRequested(uid types.UID) bool {
	p, known := s.pods[uid]
	return known && p.phase >= Terminating
}

// ContainersShouldBeTerminating reports whether the pod's containers are being
// stopped or have been: from then on nothing of the pod may be started, by
// anyone.
func (s *Set) ContainersShouldBeTerminating(uid types.UID) bool {
	p, known := s.pods[uid]
	if !known {
		return s.synced
	}
	return p.stopping
}

// RuntimeShouldBeRemoved reports whether the runtime's records of the pod may be
// removed.
func (s *Set) RuntimeShouldBeRemoved(uid types.UID) bool {
	p, known := s.pods[uid]
	if !known {
		return s.synced
	}
	return p.quiet()
}

// ContentShouldBeRemoved reports whether what the pod wrote on the node, its
// volumes and logs, may be removed: it has stopped and was deleted, or it was
// evicted and is stopping.
func (s *Set) ContentShouldBeRemoved(uid types.UID) bool {
	p, known := s.pods[uid]
	if !known {
		return s.synced
	}
	return p.evicted || p.deleted && p.quiet()
}
