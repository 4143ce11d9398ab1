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
	if c.Runtime == nil {
		c.Runtime = c.Client
	}
	if c.Updater == nil {
		c.Updater = c.Client
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
	if c.Statuses == nil {
		if c.Statuses, err = cri.NewReader(cri.ReaderConfig{Runtime: c.Client, RuntimeName: c.RuntimeName, Owner: c.Owner}); err != nil {
			return fmt.Errorf("syncpod: Config.Statuses: %w", err)
		}
	}
	if c.Sandboxes == nil {
		if c.Sandboxes, err = sandbox.NewRunner(sandbox.RunnerConfig{Runtime: c.Client, Owner: c.Owner, Log: c.Log}); err != nil {
			return fmt.Errorf("syncpod: Config.Sandboxes: %w", err)
		}
	}
	if c.Images == nil {
		if c.Images, err = image.New(image.Config{Runtime: c.Client}); err != nil {
			return fmt.Errorf("syncpod: Config.Images: %w", err)
		}
	}
	if c.Hooks == nil {
		if c.Hooks, err = hook.New(hook.Config{Exec: c.Client}); err != nil {
			return fmt.Errorf("syncpod: Config.Hooks: %w", err)
		}
	}
	return nil
}
