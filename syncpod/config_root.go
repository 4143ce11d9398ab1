package syncpod

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/internal/base/podfile"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume"
)

// fromRoot makes the parts that are missing and keep files below Root.
func (c *Config) fromRoot() error {
	if c.Root == "" {
		return nil
	}
	if c.Volumes == nil {
		volumes, err := volume.New(volume.Config{
			ConfigMaps: c.Env.ConfigMaps, Secrets: c.Env.Secrets, Tokens: c.Tokens, Allocatable: c.Allocatable,
			Unprivileged: os.Geteuid() > 0,
		})
		if err != nil {
			return fmt.Errorf("syncpod: Config.Volumes: %w", err)
		}
		c.Volumes = volumes
	}
	dirs, err := poddir.New(poddir.Config{Root: c.Root, LogsRoot: c.LogsRoot, ClusterDomain: c.DNS.ClusterDomain, Volumes: c.Volumes})
	if err != nil {
		return fmt.Errorf("syncpod: Config.Root: %w", err)
	}
	if c.Prepare == nil {
		c.Prepare = dirs
		if c.Refresh == nil {
			c.Refresh = dirs
		}
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
		c.Records = FileRecords{Dir: filepath.Join(c.Root, "records"), turns: podfile.NewTurns()}
	}
	return nil
}
