package agent

import (
	"context"
	"time"

	"github.com/podsync/podsync/syncpod/loop"
)

// every calls do at intervals until ctx ends. It skips calls while the runtime is unavailable.
func every(ctx context.Context, host loop.Host, interval time.Duration, do func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if host.Available() == nil {
			do()
		}
	}
}
