package csi

import (
	"context"
	"time"
)

// republishAll has NodePublishVolume called again and again for drivers that ask for it, such as those that renew tokens.
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
				m.look(id)
			}
		}
		m.mu.Unlock()
	}
}

// markRepublish has a volume published again for the pods that have it. The lock is held.
func (e *entry) markRepublish() (any bool) {
	for uid, u := range e.record.Pods {
		if u.Published == Present && !u.Ended {
			e.republish[uid], any = true, true
		}
	}
	return any
}
