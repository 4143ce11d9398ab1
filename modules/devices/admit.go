package devices

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod"
)

// reasonUnexpected is the kubelet's reason for a pod that a resource manager rejects.
const reasonUnexpected = "UnexpectedAdmissionError"

// Admit rejects a pod, with the kubelet's reason and message, if the active pods leave too few devices for it. It returns
// nil otherwise. It ignores resources that no plugin has registered.
func (m *Manager) Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ledger.Fits(pod, activePods, time.Now()); err != nil {
		return &syncpod.Rejection{Reason: reasonUnexpected, Message: "Allocate failed due to " + err.Error() + ", which is unexpected"}
	}
	return nil
}
