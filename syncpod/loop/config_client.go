package loop

import (
	"cmp"
	"fmt"

	"github.com/podsync/podsync/internal/deps"
	"github.com/podsync/podsync/runtime"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/internal/assemble"
)

// fromClient are the parts that a Loop creates from its Client.
type fromClient struct {
	reader *podreader.Reader
	cache  *runtime.Cache
	// sandboxes is also the Syncer's, because only one stop of a sandbox may be in flight.
	sandboxes *run.Runner
	probes    deps.Probes
}

func (c *Config) makeFromClient() (err error) {
	of := assemble.Runtime{Client: c.Client, Name: c.Sync.RuntimeName, Owner: c.Sync.Owner, Log: c.Sync.Log}
	if _, err := of.RuntimeName(); err != nil {
		return fmt.Errorf("loop: Config.Sync.%w", err)
	}
	if c.reader, err = of.Reader(); err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	c.cache, c.probes = &runtime.Cache{}, deps.Probes(deps.NoProbes{})
	if given := c.Sync.Deps; given != nil {
		c.cache = cmp.Or(given.Cache, c.cache)
		if given.Probes != nil {
			c.probes = given.Probes
		}
	}
	if c.sandboxes, err = of.Sandboxes(); err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	c.Sync.Deps = c.Sync.Deps.With(func(d *deps.Dependencies) { d.Sandboxes, d.Probes = c.sandboxes, c.probes })
	return nil
}
