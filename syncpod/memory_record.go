package syncpod

func (m *memory) isLoaded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded
}

// close keeps work that was given up, and returns late, from recording a pod that is
// gone. What is being recorded is recorded when it returns.
func (m *memory) close() {
	if m == nil {
		return
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
}

// restore adds to a memory what was recorded. Much may have happened since the record was
// asked for first, and may have been answered by another call meanwhile.
func (m *memory) restore(r Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded {
		return
	}
	m.loaded, m.saved = true, newSavedRecord(r)
	if !m.calledOff {
		m.restoreEnd(r)
	}
	m.backOffs.restore(m.saved.crashes)
	for _, c := range m.saved.containers {
		known := m.containers.of(c.name)
		known.nextAttempt = max(known.nextAttempt, c.nextAttempt)
		known.everStarted = known.everStarted || c.everStarted
		if c.current != nil && (known.current == nil || known.current.Attempt < c.current.Attempt) {
			known.setCurrent(*c.current)
		}
	}
	for _, i := range m.saved.instances {
		known := m.instances.of(i.id)
		known.marks |= i.marks &^ preStopCompleted
		if i.resources != nil {
			known.resources = i.resources
		}
	}
}

// restoreEnd adds what was recorded of an end that has begun. It must be called with mu
// held.
func (m *memory) restoreEnd(r Record) {
	m.deadline = earliest(m.deadline, r.Deadline)
	for _, id := range r.PreStopCompleted {
		m.instances.of(id).marks |= preStopRun | preStopCompleted
	}
}

// toRecord returns the record of a memory, and whether it is not the one saved.
func (m *memory) toRecord() (r savedRecord, news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loaded || m.gone {
		return savedRecord{}, false
	}
	r = savedRecord{deadline: m.deadline, containers: m.containers.toRecord(), instances: m.instances.toRecord(), crashes: m.backOffs.toRecord()}
	return r, m.outdated || !r.repeats(m.saved)
}

func (c containers) toRecord() (saved []savedContainer) {
	for _, known := range c {
		if known.nextAttempt > 0 || known.everStarted || known.current != nil {
			saved = append(saved, savedContainer{known.name, known.nextAttempt, known.everStarted, known.current})
		}
	}
	return saved
}

func (i instances) toRecord() (saved []savedInstance) {
	for _, known := range i {
		if marks := known.marks & recordedMarks; marks != 0 || known.resources != nil {
			saved = append(saved, savedInstance{known.id, marks, known.resources})
		}
	}
	return saved
}

func (m *memory) recorded(r savedRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved, m.outdated = r, false
}
