package devices

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod"
)

// reasonUnexpected is a kubelet's for a pod that its managers of resources refuse.
const reasonUnexpected = "UnexpectedAdmissionError"

// Admit returns why there are too few devices for a pod besides the active pods, in the words of a
// kubelet, and nil if there are enough. It ignores resources that no plugin has registered.
func (m *Manager) Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ledger.Fits(pod, activePods, time.Now()); err != nil {
		return &syncpod.Rejection{Reason: reasonUnexpected, Message: "Allocate failed due to " + err.Error() + ", which is unexpected"}
	}
	return nil
}
