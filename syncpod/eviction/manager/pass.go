package manager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/eviction"
)

// passPatience is how long a Synchronize waits for a measurement of storage limits.
const passPatience = time.Second

// A pass is the result of one measurement of pods.
type pass struct {
	known map[types.UID]measured
	// next is when limits are checked again.
	next time.Time
}

// A runningPass is a measurement in progress; found is valid after done is closed.
type runningPass struct {
	done  chan struct{}
	found pass
}

// measured has pods with limits measured at intervals, and reports whether a measurement has ended. It
// waits no longer than patience; a later call reports a measurement that takes longer.
func (m *Manager) measured(ctx context.Context, now time.Time, patience time.Duration) bool {
	if m.pass == nil && m.rules.StorageLimits && m.disk.due(now) {
		if pods := m.running(eviction.HasStorageLimits); len(pods) > 0 {
			m.beginPass(ctx, pods, now)
		}
	}
	return m.endPass(ctx, patience)
}

func (m *Manager) beginPass(ctx context.Context, pods []Pod, now time.Time) {
	began, disk := &runningPass{done: make(chan struct{})}, m.disk
	m.pass = began
	m.evictions.Go(func() {
		defer close(began.done)
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		began.found = disk.pass(ctx, pods, now)
	})
}

// endPass stores the measurement's result in progress, and reports whether it has ended.
func (m *Manager) endPass(ctx context.Context, patience time.Duration) bool {
	if m.pass == nil {
		return false
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-m.pass.done:
	case <-wait.Done():
		select {
		case <-m.pass.done:
		default:
			return false
		}
	}
	m.disk.keep(m.pass.found)
	m.pass = nil
	return true
}

// measure measures pods immediately, after the measurement in progress.
func (m *Manager) measure(ctx context.Context, pods []Pod, now time.Time) {
	if m.pass != nil && !m.endPass(ctx, readTimeout) {
		return // the disk does not respond: use the last results
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m.disk.measure(ctx, pods, now)
}
