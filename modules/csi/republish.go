package csi

import (
	"context"
	"time"
)

// republishAll checks once a minute whether volumes have grown, and calls NodePublishVolume again for drivers with
// requiresRepublish, for example to renew tokens.
func (m *Manager) republishAll(ctx context.Context) {
	ticker := time.NewTicker(republishPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asks := map[string]bool{}
		for _, d := range m.Drivers() {
			about, err := m.config.Objects.driver(ctx, d.Name)
			asks[d.Name] = err == nil && about.republishes()
		}
		m.mu.Lock()
		for id, e := range m.volumes {
			if e.record.Source.Plugin == csiPlugin && asks[e.record.Source.Driver] && e.markRepublish() {
				m.enqueue(id)
			}
		}
		m.mu.Unlock()
		m.growAll(ctx)
	}
}

// growAll starts the expansion of volumes that have grown while pods use them. If a volume's claim does not have the size
// to which the node has expanded it, the result was not recorded, and growAll reports it again.
func (m *Manager) growAll(ctx context.Context) {
	for id, s := range m.growing() {
		size, err := m.config.Objects.growth(ctx, s)
		if err != nil || size == 0 {
			continue // the next round reads it again
		}
		m.mu.Lock()
		switch e := m.volumes[id]; {
		case e == nil:
		case size == e.record.Expanded:
			s.Size = size
			m.expanded(&s, nil)
		case size != e.record.Source.Size:
			e.record.Source.Size = size
			m.retryExpansion(id, e)
		}
		m.mu.Unlock()
	}
}

// retryExpansion expands a volume to another size without back-off. The caller holds the lock.
func (m *Manager) retryExpansion(id VolumeID, e *entry) {
	key := StepKey{Action: Expand}
	m.retries.Forget(retryKey{id, key})
	delete(e.notBefore, key)
	m.enqueue(id)
}

// growing returns the volumes that pods use and that the node can expand.
func (m *Manager) growing() map[VolumeID]source {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[VolumeID]source{}
	for id, e := range m.volumes {
		if v, _ := m.facts(e); v.Expands && e.record.Source.Claim != "" && len(e.record.Pods) > 0 {
			all[id] = e.record.Source
		}
	}
	return all
}

// markRepublish marks a volume to be published again for the pods that have it. The caller holds the lock.
func (e *entry) markRepublish() (any bool) {
	for uid, u := range e.record.Pods {
		if u.Published == Present && !u.Ended {
			e.republish[uid], any = true, true
		}
	}
	return any
}
