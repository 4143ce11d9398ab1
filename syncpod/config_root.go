package syncpod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/deps"
	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// fromRoot creates the missing parts that keep files below Root.
func (c *Config) fromRoot() error {
	if c.Root == "" {
		return nil
	}
	if c.deps.Volumes == nil {
		config := local.Config{
			ConfigMaps: c.Objects.Sources.ConfigMaps, Secrets: c.Objects.Sources.Secrets, Tokens: c.Objects.Tokens, Projections: c.Objects.Projections, Allocatable: c.Node.Allocatable,
			RecursiveReadOnly: c.Node.RecursiveReadOnly, Unprivileged: os.Geteuid() > 0,
			Plugin: c.Extensions.Volumes,
		}
		if c.Observer != nil {
			config.Observer = c.Observer.VolumeSetUp
		}
		volumes, err := local.New(config)
		if err != nil {
			return fmt.Errorf("syncpod: volumes: %w", err)
		}
		c.deps.Volumes = volumes
	}
	dirs, err := poddir.New(poddir.Config{Root: c.Root, LogsRoot: c.Node.LogsRoot, ClusterDomain: c.Node.dns().ClusterDomain, Volumes: c.deps.Volumes})
	if err != nil {
		return fmt.Errorf("syncpod: Config.Root: %w", err)
	}
	if c.deps.Prepare == nil {
		c.deps.Prepare = dirs
		if c.deps.Refresh == nil {
			c.deps.Refresh = dirs
		}
	}
	if c.deps.Mounts == nil {
		c.deps.Mounts = dirs
	}
	if c.deps.Clean == nil {
		c.deps.Clean = []deps.Cleaner{dirs}
	}
	if c.deps.Messages == nil {
		c.deps.Messages = dirs
	}
	c.deps.FileKey = func(_ context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error) {
		dir, err := dirs.Dir(pod.UID)
		if err != nil {
			return "", err
		}
		return local.FileKey(pod, dir, ref)
	}
	if c.deps.Records == nil {
		c.deps.Records = deps.FileRecords{Dir: filepath.Join(c.Root, "records"), Turns: podfile.NewTurns()}
	}
	return nil
}
