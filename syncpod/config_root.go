package syncpod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/base/podfile"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/internal/poddir"
	"github.com/podsync/podsync/syncpod/volume"
)

// fromRoot makes the parts that are missing and keep files below Root.
func (c *Config) fromRoot() error {
	if c.Root == "" {
		return nil
	}
	if c.Deps.Volumes == nil {
		config := volume.Config{
			ConfigMaps: c.Objects.Sources.ConfigMaps, Secrets: c.Objects.Sources.Secrets, Tokens: c.Objects.Tokens, Allocatable: c.Node.Allocatable,
			RecursiveReadOnly: c.Node.RecursiveReadOnly, Unprivileged: os.Geteuid() > 0,
			Plugin: c.Extensions.Volumes,
		}
		if c.Observer != nil {
			config.Observer = c.Observer.VolumeSetUp
		}
		volumes, err := volume.New(config)
		if err != nil {
			return fmt.Errorf("syncpod: Config.Deps.Volumes: %w", err)
		}
		c.Deps.Volumes = volumes
	}
	dirs, err := poddir.New(poddir.Config{Root: c.Root, LogsRoot: c.Node.LogsRoot, ClusterDomain: c.Node.dns().ClusterDomain, Volumes: c.Deps.Volumes})
	if err != nil {
		return fmt.Errorf("syncpod: Config.Root: %w", err)
	}
	if c.Deps.Prepare == nil {
		c.Deps.Prepare = dirs
		if c.Deps.Refresh == nil {
			c.Deps.Refresh = dirs
		}
	}
	if c.Deps.Mounts == nil {
		c.Deps.Mounts = dirs
	}
	if c.Extensions.Clean == nil {
		c.Extensions.Clean = []Cleaner{dirs}
	}
	if c.Deps.Messages == nil {
		c.Deps.Messages = dirs
	}
	if c.Objects.Sources.FileKeys == nil {
		c.Objects.Sources.FileKeys = env.FileKeysFunc(func(_ context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error) {
			dir, err := dirs.Dir(pod.UID)
			if err != nil {
				return "", err
			}
			return volume.FileKey(pod, dir, ref)
		})
	}
	if c.Deps.Records == nil {
		c.Deps.Records = FileRecords{Dir: filepath.Join(c.Root, "records"), turns: podfile.NewTurns()}
	}
	return nil
}
