package syncpod

import (
	"fmt"

	"github.com/podsync/podsync/syncpod/internal/assemble"
)

// fromClient makes the parts that are missing of the Client, if there is one.
func (c *Config) fromClient() (err error) {
	if err := c.Owner.Validate(); err != nil {
		return err
	}
	if c.Client == nil {
		return nil
	}
	if err := assemble.CheckClient(c.Client); err != nil {
		return fmt.Errorf("syncpod: Config.Client is %w", err)
	}
	if c.Deps.Runtime == nil {
		c.Deps.Runtime = c.Client
	}
	if c.Deps.Updater == nil {
		c.Deps.Updater = c.Client
	}
	of := assemble.Runtime{Client: c.Client, Name: c.RuntimeName, Owner: c.Owner, Log: c.Log, Root: c.Root, DialPod: c.Node.DialPod}
	if c.RuntimeName, err = of.RuntimeName(); err != nil {
		return fmt.Errorf("syncpod: Config.%w", err)
	}
	if err := c.Deps.fill(of); err != nil {
		return fmt.Errorf("syncpod: Config.Deps: %w", err)
	}
	return nil
}

// fill creates the missing parts from a connection to the runtime.
func (d *Dependencies) fill(of assemble.Runtime) (err error) {
	if d.Statuses == nil {
		if d.Statuses, err = of.Reader(); err != nil {
			return err
		}
	}
	if d.Sandboxes == nil {
		if d.Sandboxes, err = of.Sandboxes(); err != nil {
			return err
		}
	}
	if d.Images == nil {
		if d.Images, err = of.Images(); err != nil {
			return err
		}
	}
	if d.Hooks == nil {
		if d.Hooks, err = of.Hooks(); err != nil {
			return err
		}
	}
	return nil
}
