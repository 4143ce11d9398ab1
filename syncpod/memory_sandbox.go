package syncpod

import (
	"sync"

	"github.com/podsync/podsync/runtime"
)

// sandboxMemory is what is remembered of a pod's sandboxes.
type sandboxMemory struct {
	mu sync.Mutex
	// made is the one that was last made here, and unaddressed one that is, or was,
	// waited for to get an address.
	made, unaddressed string
}

func (s *sandboxMemory) setMade(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = id
}

// inUse returns the sandbox that the pod uses: the one made here last, or else the
// latest that is ready.
func (s *sandboxMemory) inUse(status *runtime.PodStatus) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range status.Sandboxes {
		if status.Sandboxes[i].ID == s.made {
			return s.made
		}
	}
	if active := status.ActiveSandbox(); active != nil {
		return active.ID
	}
	return ""
}

// beginWait notes that a sandbox is waited for, and reports whether that is news.
func (s *sandboxMemory) beginWait(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.unaddressed != id
	s.unaddressed = id
	return news
}

// endWait ends the wait for an address, and reports whether there was one for the
// latest sandbox.
func (s *sandboxMemory) endWait(status *runtime.PodStatus) bool {
	latest := status.LatestSandbox()
	s.mu.Lock()
	defer s.mu.Unlock()
	if latest == nil || s.unaddressed != latest.ID {
		return false
	}
	s.unaddressed = ""
	return true
}
