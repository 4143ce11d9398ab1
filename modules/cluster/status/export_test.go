package status

// Kept returns of how many pods something is known.
func (m *Manager) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(len(m.pods), len(m.finished))
}
