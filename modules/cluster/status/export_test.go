package status

// Kept returns the number of pods of which the Manager has any state.
func (m *Manager) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(len(m.pods), len(m.finished))
}
