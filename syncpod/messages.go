package syncpod

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
)

// withMessages returns a status in which exited containers have their termination message. Each
// message is read once, because it does not change.
func (s *Syncer) withMessages(pod *v1.Pod, m *podMemory, status *runtime.PodStatus) *runtime.PodStatus {
	if pod == nil {
		return status
	}
	full := *status
	full.Containers = slices.Clone(status.Containers)
	for i := range full.Containers {
		if c := &full.Containers[i]; c.State == runtime.ContainerExited {
			if spec, err := runtime.FindContainer(pod, c.Name); err == nil {
				c.Message = m.secrets.redactMessage(spec, c.Message)
			}
			if s.config.Parts.Messages != nil {
				c.Message = s.message(pod, m, c)
			}
		}
	}
	return &full
}

func (s *Syncer) message(pod *v1.Pod, m *podMemory, c *runtime.ContainerStatus) string {
	var message string
	var known bool
	if m.do(func(p *memory.Pod) { message, known = p.Instances.Message(c.ID.ID) }); known {
		return message
	}
	message, err := s.config.Parts.Messages.TerminationMessage(pod, c)
	if err != nil {
		s.log(pod).Error(err, "termination message not read", "container", c.Name)
	}
	return ask(m, func(p *memory.Pod) string { return p.Instances.SetMessage(c.ID.ID, message) })
}
