package agent

import (
	"context"

	"github.com/podsync/podsync/syncpod/oom"
)

// WatchKills has an agent report the kills of a test in the place of the kernel's.
func WatchKills(c *Config, kills interface {
	Run(context.Context, func(oom.Kill)) error
}) {
	c.NoOOMEvents, c.oom = false, kills
}
