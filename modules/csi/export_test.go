package csi

import (
	"sync/atomic"

	"github.com/podsync/podsync/runtime/stats"
)

// HangStatFS makes calls for the usage of local volumes wait for end. It returns the number of calls.
func (m *Manager) HangStatFS(end <-chan struct{}) *atomic.Int32 {
	var calls atomic.Int32
	m.statfs = func(path string) (*stats.FS, error) {
		calls.Add(1)
		<-end
		return stats.StatFS(path)
	}
	return &calls
}
