package status

// Kept returns the number of pods that the Manager keeps state for.
func (m *Manager) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(len(m.pods), len(m.finished))
}

// Answers returns the number of responses that the Manager keeps because the informer does not have them yet.
func (m *Manager) Answers() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.pods {
		if e.answer != nil {
			n++
		}
	}
	return n
}
