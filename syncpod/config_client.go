package syncpod

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// fromClient creates the missing parts from the Client.
func (c *Config) fromClient() error {
	if err := c.Owner.Validate(); err != nil {
		return err
	}
	if c.Client == nil {
		return errors.New("syncpod: Config.Client is missing")
	}
	if err := c.Client.Validate(); err != nil {
		return fmt.Errorf("syncpod: Config.Client is %w", err)
	}
	if c.Node.DialPod == nil {
		c.Node.DialPod = c.Client.PodDialer()
	}
	c.RuntimeName = cmp.Or(c.RuntimeName, c.Client.RuntimeName())
	if err := runtime.CheckRuntimeName(c.RuntimeName); err != nil {
		return fmt.Errorf("syncpod: Config.%w", err)
	}
	for _, part := range []struct {
		name string
		make func(*Config) error
	}{
		{"Statuses", (*Config).makeStatuses}, {"Sandboxes", (*Config).makeSandboxes}, {"Images", (*Config).makeImages}, {"Hooks", (*Config).makeHooks},
	} {
		if err := part.make(c); err != nil {
			return fmt.Errorf("syncpod: Config.Parts.%s of the Client: %w", part.name, err)
		}
	}
	return nil
}

func (c *Config) makeStatuses() (err error) {
	if c.Parts.Statuses == nil {
		c.Parts.Statuses, err = reader.New(reader.Config{Runtime: c.Client, RuntimeName: c.RuntimeName, Owner: c.Owner})
	}
	return err
}

func (c *Config) makeSandboxes() (err error) {
	if c.Parts.Sandboxes == nil {
		c.Parts.Sandboxes, err = run.New(run.Config{Runtime: c.Client, Owner: c.Owner, Log: c.Log})
	}
	return err
}

// makeImages keeps with a Root which pods may use an image, for the next agent.
func (c *Config) makeImages() (err error) {
	if c.Parts.Images == nil {
		config := image.Config{Settings: image.Settings{Runtime: c.Client}, Log: c.Log}
		if c.Root != "" {
			config.Dir = filepath.Join(c.Root, "images")
		}
		c.Parts.Images, err = image.New(config)
	}
	return err
}

func (c *Config) makeHooks() (err error) {
	if c.Parts.Hooks == nil {
		c.Parts.Hooks, err = handler.New(handler.Config{Exec: c.Client, Dial: c.Node.DialPod})
	}
	return err
}
