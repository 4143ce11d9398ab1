package syncpod

import (
	"fmt"
	"path/filepath"

	"github.com/podsync/podsync/syncpod/poddir"
)

// fromRoot makes the parts that are missing and keep files below Root.
func (c *Config) fromRoot() error {
	if c.Root == "" {
		return nil
	}
	if !filepath.IsAbs(c.Root) {
		return fmt.Errorf("syncpod: Config.Root %q is not an absolute path", c.Root)
	}
	dirs, err := poddir.New(poddir.Config{Root: c.Root, LogsRoot: c.LogsRoot, ClusterDomain: c.DNS.ClusterDomain})
	if err != nil {
		return fmt.Errorf("syncpod: Config.Root: %w", err)
	}
	if c.Prepare == nil {
		c.Prepare = dirs
	}
	if c.Mounts == nil {
		c.Mounts = dirs
	}
	if c.Clean == nil {
		c.Clean = []Cleaner{dirs}
	}
	if c.Messages == nil {
		c.Messages = dirs
	}
	if c.Records == nil {
		c.Records = FileRecords{Dir: filepath.Join(c.Root, "records")}
	}
	return nil
}
