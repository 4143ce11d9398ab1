package syncpod

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume/local"
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

// DefaultMemoryBytes is the memory of a node whose operating system does not
// report it as Linux does in /proc/meminfo.
const DefaultMemoryBytes = 8 << 30

// nodeMemory returns this machine's memory in bytes.
func nodeMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return DefaultMemoryBytes
	}
	defer f.Close()
	return totalMemory(f)
}

// totalMemory reads the line "MemTotal:  16384256 kB".
func totalMemory(meminfo io.Reader) int64 {
	for lines := bufio.NewScanner(meminfo); lines.Scan(); {
		value, found := strings.CutPrefix(lines.Text(), "MemTotal:")
		if !found {
			continue
		}
		kB, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err == nil && kB > 0 {
			return kB << 10
		}
	}
	return DefaultMemoryBytes
}

// cpusDir has a directory for each CPU of this machine.
const cpusDir = "/sys/devices/system/cpu"

// thermalThrottle returns the directories with the throttling counters of each CPU. A container could use them to
// infer the load of other processes. Some CPUs have none.
func thermalThrottle(cpus string) []string {
	paths, _ := filepath.Glob(filepath.Join(cpus, "cpu[0-9]*", "thermal_throttle")) // the pattern is valid
	return paths
}
