package syncpod

import (
	"errors"
	"fmt"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/hook"
)

// fromClient makes the parts that are missing of the Client, if there is one.
func (c *Config) fromClient() error {
	if err := c.Owner.Validate(); err != nil {
		return err
	}
	if c.Client == nil {
		return nil
	}
	if c.Deps.Runtime == nil {
		c.Deps.Runtime = c.Client
	}
	if c.Deps.Updater == nil {
		c.Deps.Updater = c.Client
	}
	if c.RuntimeName == "" {
		c.RuntimeName = c.Client.RuntimeName()
	}
	if c.RuntimeName == "" {
		return errors.New("syncpod: Config.RuntimeName is missing: a Client of cri.NewClient does not know it, other than one of cri.Dial; " +
			`it is what the runtime calls itself, such as "containerd" or "cri-o"`)
	}
	return c.makeParts()
}

func (c *Config) makeParts() (err error) {
	if c.Deps.Statuses == nil {
		if c.Deps.Statuses, err = cri.NewReader(cri.ReaderConfig{Runtime: c.Client, RuntimeName: c.RuntimeName, Owner: c.Owner}); err != nil {
			return fmt.Errorf("syncpod: Config.Deps.Statuses: %w", err)
		}
	}
	if c.Deps.Sandboxes == nil {
		if c.Deps.Sandboxes, err = sandbox.NewRunner(sandbox.RunnerConfig{Runtime: c.Client, Owner: c.Owner, Log: c.Log}); err != nil {
			return fmt.Errorf("syncpod: Config.Deps.Sandboxes: %w", err)
		}
	}
	if c.Deps.Images == nil {
		if c.Deps.Images, err = image.New(image.Config{Runtime: c.Client}); err != nil {
			return fmt.Errorf("syncpod: Config.Deps.Images: %w", err)
		}
	}
	if c.Deps.Hooks == nil {
		if c.Deps.Hooks, err = hook.New(hook.Config{Exec: c.Client}); err != nil {
			return fmt.Errorf("syncpod: Config.Deps.Hooks: %w", err)
		}
	}
	return nil
}
