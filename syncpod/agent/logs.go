package agent

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/runtime/logs/rotate"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/loop"
)

// rotation rotates container logs.
type rotation struct {
	rotator  *rotate.Rotator
	interval time.Duration
	log      logr.Logger
}

// makeRotation returns nil if NoLogRotation is set, or the logs are not files.
func (c *Config) makeRotation() (*rotation, error) {
	if c.NoLogRotation || c.logsRoot() == "" {
		return nil, nil
	}
	if err := c.LogPolicy.Validate(); err != nil {
		return nil, fmt.Errorf("agent: Config.LogPolicy: %w", err)
	}
	if c.LogInterval < 0 {
		return nil, fmt.Errorf("agent: Config.LogInterval is negative: %v", c.LogInterval)
	}
	rotator, err := rotate.New(rotate.Config{Pods: c.Cache, Runtime: c.Client, Policy: c.LogPolicy, LogsRoot: c.logsRoot()})
	if err != nil {
		return nil, fmt.Errorf("agent: Config.LogPolicy: %w", err)
	}
	return &rotation{rotator, cmp.Or(c.LogInterval, 10*time.Second), c.Log}, nil
}

// logsRoot returns the directory of all logs, "" if the logs are not files.
func (c *Config) logsRoot() string {
	if c.Sync.Parts.Logs != nil {
		return ""
	}
	return cmp.Or(c.Sync.Node.LogsRoot, sandbox.DefaultLogsRoot)
}

// Run rotates at intervals until ctx ends.
func (r *rotation) Run(ctx context.Context, host loop.Host) error {
	every(ctx, host, r.interval, func() {
		if err := r.rotator.Rotate(ctx); err != nil && ctx.Err() == nil {
			r.log.Error(err, "logs not rotated")
		}
	})
	return nil
}
