package syncpod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// fromRoot creates the missing parts that keep files below Root.
func (c *Config) fromRoot() error {
	if c.Root == "" {
		return nil
	}
	if c.Parts.Volumes == nil {
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
		c.Parts.Volumes = volumes
	}
	dirs, err := poddir.New(poddir.Config{Root: c.Root, LogsRoot: c.Node.LogsRoot, ClusterDomain: c.Node.dns().ClusterDomain, Volumes: c.Parts.Volumes})
	if err != nil {
		return fmt.Errorf("syncpod: Config.Root: %w", err)
	}
	if c.Parts.Prepare == nil {
		c.Parts.Prepare = dirs
		if c.Parts.Refresh == nil {
			c.Parts.Refresh = dirs
		}
	}
	if c.Parts.Mounts == nil {
		c.Parts.Mounts = dirs
	}
	if c.Parts.Clean == nil {
		c.Parts.Clean = []Cleaner{dirs}
	}
	if c.Parts.Messages == nil {
		c.Parts.Messages = dirs
	}
	c.Parts.FileKey = func(_ context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error) {
		dir, err := dirs.Dir(pod.UID)
		if err != nil {
			return "", err
		}
		return local.FileKey(pod, dir, ref)
	}
	if c.Parts.Records == nil {
		c.Parts.Records = NewFileRecords(filepath.Join(c.Root, "records"))
	}
	return nil
}
