package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// LimitCgroup sets limits for an existing cgroup that is not a pod's, such as that of the system's
// services: "cpu" determines its weight, "memory" and "pid" its limits. A setting whose resource is
// missing keeps its value. name is the path from the tree's root, with the driver systemd that of a
// slice, such as /system.slice.
//
// A cgroup that does not exist is an error, because nothing would be limited. A memory limit below the
// memory in use is not set, and the error is [cgroup.ErrMemoryInUse]; memory that the kernel can reclaim
// does not count. It is the rule of enforceNodeAllocatable in KubeletConfiguration.
func (t *Tree) LimitCgroup(ctx context.Context, name string, resources v1.ResourceList) error {
	at, err := t.existing(name)
	if err != nil {
		return fmt.Errorf("tree: cgroup %q: %w", name, err)
	}
	r, err := cgroup.ResourceConfigForNode(cgroup.Above{Allocatable: resources})
	if err != nil {
		return fmt.Errorf("tree: cgroup %q: %w", name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.in(func(mount *os.Root) error { return t.limit(ctx, mount, at, r) }); err != nil {
		return fmt.Errorf("tree: cgroup %q: %w", name, err)
	}
	return nil
}

// existing returns the path of a cgroup that the administrator has named.
func (t *Tree) existing(name string) (at string, err error) {
	if t.config.Driver == cgroup.Systemd {
		slice, ok := strings.CutSuffix(path.Base(name), ".slice")
		if !ok {
			return "", errors.New("with the driver systemd it must be a slice")
		}
		name = strings.ReplaceAll(slice, "-", "/")
	}
	parsed, err := cgroup.ParseName(name)
	if err == nil && len(parsed) == 0 {
		err = errors.New("it is the root of the tree, want a cgroup below it")
	}
	return parsed.Path(t.config.Driver), err
}

// limit writes the settings that r has.
func (t *Tree) limit(ctx context.Context, mount *os.Root, at string, r cgroup.Resources) error {
	if !t.exists(mount, at) {
		return errors.New("it does not exist")
	}
	if err := t.checkMemory(mount, at, r, "inactive_file", "active_file", "slab_reclaimable"); err != nil {
		return err
	}
	if t.config.Driver == cgroup.Systemd {
		return t.config.Slices.LimitSlice(ctx, at, r)
	}
	for _, s := range cgroup.Settings(r, t.kernel.version, nil, false) {
		if s.Requests() || s.Controller != "cpu" && !s.Unlimited() {
			if err := t.write(mount, at, s); err != nil {
				return err
			}
		}
	}
	return nil
}
