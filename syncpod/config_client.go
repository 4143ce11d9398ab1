package syncpod

import (
	"errors"
	"fmt"

	"github.com/podsync/podsync/syncpod/internal/assemble"
)

// fromClient creates the missing parts from the Client.
func (c *Config) fromClient() (err error) {
	if err := c.Owner.Validate(); err != nil {
		return err
	}
	if c.Client == nil {
		return errors.New("syncpod: Config.Client is missing")
	}
	if err := assemble.CheckClient(c.Client); err != nil {
		return fmt.Errorf("syncpod: Config.Client is %w", err)
	}
	of := assemble.Runtime{Client: c.Client, Name: c.RuntimeName, Owner: c.Owner, Log: c.Log, Root: c.Root, DialPod: c.Node.DialPod}
	if c.RuntimeName, err = of.RuntimeName(); err != nil {
		return fmt.Errorf("syncpod: Config.%w", err)
	}
	if err := c.deps.fill(of); err != nil {
		return fmt.Errorf("syncpod: %w", err)
	}
	return nil
}

// fill creates the missing parts from a connection to the runtime.
func (d *dependencies) fill(of assemble.Runtime) (err error) {
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
