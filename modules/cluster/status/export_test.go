package status

// Kept returns the number of pods that the Manager keeps state for.
func (m *Manager) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(len(m.pods), len(m.finished))
}
