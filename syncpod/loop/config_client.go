package loop

import (
	"fmt"

	"github.com/podsync/podsync/syncpod/internal/assemble"
)

// makeReader makes the way to look at pods of the Client.
func (c *Config) makeReader() error {
	if c.Watch.Reader != nil {
		return nil
	}
	of := c.runtime()
	if _, err := of.RuntimeName(); err != nil {
		return fmt.Errorf("loop: Config.Sync.%w", err)
	}
	reader, err := of.Reader()
	if err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	c.Watch.Reader = reader
	if c.Watch.Events == nil {
		c.Watch.Events = c.Client
	}
	return nil
}

// makeSandboxes creates the sandbox runner from the Client: the Syncer must use the same one,
// because only one stop of a sandbox may be in flight.
func (c *Config) makeSandboxes() error {
	if c.Sync.Deps.Sandboxes != nil || c.Client == nil {
		return nil
	}
	runner, err := c.runtime().Sandboxes()
	if err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	c.Sync.Deps.Sandboxes = runner
	return nil
}

// runtime is what parts are made of.
func (c *Config) runtime() assemble.Runtime {
	return assemble.Runtime{Client: c.Client, Name: c.Sync.RuntimeName, Owner: c.Sync.Owner, Log: c.Sync.Log, Root: c.Sync.Root, DialPod: c.Sync.Node.DialPod}
}
