package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// Config configures a Tree. State is required.
type Config struct {
	// State is a directory's absolute path. A file for each pod in it records that this Tree
	// created the pod's cgroup. It must outlive the agent.
	State string
	// Mount is the absolute path at which the kernel's trees are mounted. Default /sys/fs/cgroup.
	Mount string
	// Root is the parent of the pods' cgroups, such as "/kubepods". Default cgroup.DefaultRoot. It must
	// not be the tree's root.
	Root string
	// Driver is the runtime's cgroup driver. Default cgroup.Cgroupfs.
	Driver cgroup.Driver
	// Slices creates slices for the driver cgroup.Systemd, which requires it.
	Slices Slices

	// NoCPUQuota turns off the enforcement of CPU limits.
	NoCPUQuota bool
	// ExclusiveCPUs reports whether a container of the pod has exclusive CPUs: then the pod has no CPU quota either. Default: none
	// has.
	ExclusiveCPUs func(pod types.UID) bool
	// CPUPeriod is the accounting period of CPU limits, 0 means 100 ms.
	CPUPeriod time.Duration
	// MemoryReservation keeps the memory that pods request from being reclaimed, with
	// version 2 of the kernel's interface; see cgroup.Input.
	MemoryReservation bool
	// PodPIDs limits the processes and threads of a pod. 0 means no limit.
	PodPIDs int64
	// Allocatable limits all pods together. A resource that is missing in it has no limit.
	Allocatable v1.ResourceList
	// killTimeout is the maximum time until killed processes have ended. Default 10 s.
	killTimeout time.Duration

	// Log receives a line for each cgroup created or removed. Default: no log.
	Log logr.Logger
}

func (c *Config) setDefaults() error {
	c.Mount = cmp.Or(c.Mount, "/sys/fs/cgroup")
	c.Root = cmp.Or(c.Root, cgroup.DefaultRoot)
	c.Driver = cmp.Or(c.Driver, cgroup.Cgroupfs)
	c.killTimeout = cmp.Or(c.killTimeout, 10*time.Second)
	for name, dir := range map[string]string{"State": c.State, "Mount": c.Mount} {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("tree: Config.%s is %q, want an absolute path", name, dir)
		}
	}
	switch {
	case c.Driver != cgroup.Cgroupfs && c.Driver != cgroup.Systemd:
		return fmt.Errorf("tree: Config.Driver is %q, want cgroupfs or systemd", c.Driver)
	case c.Driver == cgroup.Systemd && c.Slices == nil:
		return errors.New("tree: Config.Slices is missing: with the driver systemd slices are made over D-Bus")
	case c.PodPIDs < 0:
		return fmt.Errorf("tree: Config.PodPIDs is %d, want 0 or more", c.PodPIDs)
	case c.killTimeout < 0:
		return fmt.Errorf("tree: Config.KillTimeout is %v, want 0 or more", c.killTimeout)
	}
	_, err := cgroup.ResourceConfigForNode(cgroup.Above{Allocatable: c.Allocatable})
	return err
}

// procs lists a cgroup's processes in every version.
const procs = "cgroup.procs"

// kernel describes the trees below the mount.
type kernel struct {
	version cgroup.Version
	// trees are the trees' directories, "." for version 2.
	trees []string
	// controllers are tree directories by controller, for the controllers that have settings.
	controllers map[string]string
	// pages are the sizes of huge pages, in bytes.
	pages []int64
}

const (
	// maxSetting limits the bytes read from a file with a setting. maxControllers is the
	// maximum number of entries read from the controllers' directory.
	maxSetting, maxControllers = 64 << 10, 1024
)

// readFile returns at most limit bytes in a file of the kernel.
func readFile(mount *os.Root, name string, limit int64) (string, error) {
	file, err := mount.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit))
	return string(text), err
}

// look determines the mounted version and its controllers.
func look(mount *os.Root) (kernel, error) {
	if text, err := readFile(mount, "cgroup.controllers", maxSetting); err == nil {
		k := kernel{version: cgroup.V2, trees: []string{"."}, controllers: map[string]string{}}
		for _, c := range strings.Fields(text) {
			k.controllers[c] = "."
		}
		return k.complete()
	}
	k := kernel{version: cgroup.V1, controllers: map[string]string{}}
	top, err := mount.Open(".")
	if err != nil {
		return k, err
	}
	defer top.Close()
	entries, err := top.ReadDir(maxControllers)
	if err != nil && !errors.Is(err, io.EOF) {
		return k, err
	}
	for _, e := range entries {
		if _, err := mount.Stat(path.Join(e.Name(), procs)); err != nil {
			continue
		}
		k.controllers[e.Name()] = e.Name()
		if e.IsDir() { // all other entries are links to these
			k.trees = append(k.trees, e.Name())
		}
	}
	slices.Sort(k.trees)
	return k.complete()
}

// complete checks that the controllers that every pod needs exist.
func (k kernel) complete() (kernel, error) {
	for _, c := range []string{"cpu", "memory"} {
		if k.controllers[c] == "" {
			return k, fmt.Errorf("there is no controller %s", c)
		}
	}
	var err error
	if k.controllers["hugetlb"] != "" {
		k.pages, err = pageSizes("/sys/kernel/mm/hugepages")
	}
	return k, err
}

// pageSizes returns the sizes of huge pages, which are directory names.
func pageSizes(dir string) (sizes []int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		text := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB")
		if kib, err := strconv.ParseInt(text, 10, 64); err == nil && kib > 0 {
			sizes = append(sizes, kib<<10)
		}
	}
	return sizes, err
}
