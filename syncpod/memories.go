package syncpod

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memories are what a Syncer remembers of pods until they are forgotten.
type memories struct {
	config *Config
	mu     sync.Mutex
	pods   map[types.UID]*memory
	// undeleted are pods that are gone and whose records could not be deleted. A pod that
	// comes with the UID of one is another pod (kubernetes #104648).
	undeleted map[types.UID]bool
}

// get returns what is remembered of a pod, nil for nothing.
func (m *memories) get(uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// of returns what is remembered of a pod, and remembers it from now on.
func (m *memories) of(uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pods[uid]; p != nil {
		return p
	}
	if m.pods == nil {
		m.pods = map[types.UID]*memory{}
	}
	p := newMemory(uid, m.config)
	p.loaded, p.outdated = m.undeleted[uid], m.undeleted[uid]
	m.pods[uid] = p
	return p
}

// take returns what is remembered of a pod, nil for nothing, and forgets it.
func (m *memories) take(uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	delete(m.pods, uid)
	return p
}

// deleted notes whether the record of a pod that is gone could be deleted.
func (m *memories) deleted(uid types.UID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.undeleted, uid)
	if err == nil {
		return
	}
	if m.undeleted == nil {
		m.undeleted = map[types.UID]bool{}
	}
	m.undeleted[uid] = true
}
