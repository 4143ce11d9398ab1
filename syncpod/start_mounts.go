package syncpod

import (
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// startMounts are mounted on the node for the start of one instance of a container.
type startMounts struct {
	// id is the runtime's ID of the instance.
	id      string
	release func() error
}

// endMounts releases the mounts of a start that has ended. As long as the container may yet start they
// stay, until releaseMounts finds that it has.
func (st progress) endMounts(failed *StepError) {
	switch {
	case st.mounts.release == nil:
	case failed != nil && failed.Step == StepStart && cri.Ambiguous(failed.Err):
		st.memory.setMounts(st.spec.Name, startMounts{st.id.ID, st.mounts.release})
	default:
		st.syncer.releaseEach(st.memory, []startMounts{st.mounts})
	}
}

// releaseMounts releases the mounts of starts that were left open and have ended by a status. A nil status
// stands for a pod that is to end: no start is wanted any more.
func (s *Syncer) releaseMounts(m *podMemory, status *runtime.PodStatus) {
	s.releaseEach(m, m.takeMounts(func(id string) bool {
		if status == nil {
			return true
		}
		for i := range status.Containers {
			if c := &status.Containers[i]; c.ID.ID == id {
				return c.State != runtime.ContainerCreated
			}
		}
		return true
	}))
}

// releaseEach logs what fails: the next start of the container, or the removal of the pod, unmounts what
// stays.
func (s *Syncer) releaseEach(m *podMemory, ended []startMounts) {
	for _, mounts := range ended {
		if err := mounts.release(); err != nil {
			s.config.Log.Error(err, "a mount for the start of a container stays", "podUID", m.uid, "containerID", mounts.id)
		}
	}
}

// setMounts notes the mounts of a start that was left open. The zero value forgets those of an earlier
// start: a later one has replaced them.
func (m *podMemory) setMounts(name string, mounts startMounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mounts, name)
	if mounts.release != nil {
		put(&m.mounts, name, mounts)
	}
}

// takeMounts forgets and returns the mounts of the instances that are over.
func (m *podMemory) takeMounts(over func(id string) bool) (ended []startMounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, mounts := range m.mounts {
		if over(mounts.id) {
			ended = append(ended, mounts)
			delete(m.mounts, name)
		}
	}
	return ended
}
