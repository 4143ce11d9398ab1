package syncpod

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// withMessages returns a status in which exited containers have their termination
// message. Each is read once: it does not change any more.
func (s *Syncer) withMessages(pod *v1.Pod, m *memory, status *runtime.PodStatus) *runtime.PodStatus {
	if s.config.Deps.Messages == nil || pod == nil {
		return status
	}
	full := *status
	full.Containers = slices.Clone(status.Containers)
	for i := range full.Containers {
		if c := &full.Containers[i]; c.State == runtime.ContainerExited {
			c.Message = s.message(pod, m, c)
		}
	}
	return &full
}

func (s *Syncer) message(pod *v1.Pod, m *memory, c *runtime.ContainerStatus) string {
	if message, known := m.message(c.ID.ID); known {
		return message
	}
	message, err := s.config.Deps.Messages.TerminationMessage(pod, c)
	if err != nil {
		s.log(pod).Error(err, "termination message not read", "container", c.Name)
	}
	m.setMessage(c.ID.ID, message)
	return message
}
