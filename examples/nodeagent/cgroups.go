package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
)

// podCgroups returns the pods' cgroup manager, nil if the runtime creates them.
func (o options) podCgroups(ctx context.Context, client *cri.Client) (syncpod.Cgroups, error) {
	if o.cgroups == "" {
		return nil, nil
	}
	driver, err := tree.DriverOf(ctx, client)
	if errors.Is(err, cri.ErrUnimplemented) {
		driver, err = cgroup.Cgroupfs, nil // the default of runtimes that do not report a driver
	}
	if err != nil {
		return nil, err
	}
	if driver != cgroup.Cgroupfs {
		return nil, &failure{exitUsage, "Without -cgroups the runtime creates the cgroups.", fmt.Errorf("-cgroups %s: the runtime's cgroup driver is %s, and nodeagent supports cgroupfs only", o.cgroups, driver)}
	}
	cgroups, err := tree.New(tree.Config{State: filepath.Join(o.root, "cgroups"), Root: o.cgroups, Driver: driver})
	if err != nil {
		return nil, &failure{exitUsage, "-cgroups needs root and mounted cgroups.", fmt.Errorf("-cgroups %s: %w", o.cgroups, unprefixed(err, "tree: Config.Root: ", "tree: Config.Mount: ", "tree: "))}
	}
	return cgroups, nil
}
