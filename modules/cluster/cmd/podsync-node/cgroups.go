package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
)

// cgroups creates the pods' cgroup manager.
func (a *agent) cgroups(ctx context.Context, enforced v1.ResourceList) (syncpod.Cgroups, error) {
	driver, err := tree.DriverOf(ctx, a.runtime)
	if err != nil {
		if !errors.Is(err, cri.ErrUnimplemented) {
			return nil, err
		}
		driver = cgroup.Driver(a.kubelet.CgroupDriver) // the runtime does not report its driver
	}
	return a.cgroupsWith(ctx, driver, enforced)
}

// cgroupsWith creates the manager for a driver, and enforces the configuration's reservations.
func (a *agent) cgroupsWith(ctx context.Context, driver cgroup.Driver, enforced v1.ResourceList) (*tree.Tree, error) {
	t, err := tree.New(a.cgroupConfig(driver, enforced))
	if err != nil {
		return nil, err
	}
	switch err := t.EnsurePodsCgroup(ctx); {
	case errors.Is(err, cgroup.ErrMemoryInUse):
		a.log.Error(err, "The limit of all pods is not set before they use less") // evictions lower the usage, and each pod that starts is another attempt
	case err != nil:
		return nil, err
	}
	reservations, err := config.Reservations(a.kubelet)
	for _, r := range reservations {
		err = errors.Join(err, t.LimitCgroup(ctx, r.Cgroup, r.Resources))
	}
	if err != nil {
		return nil, fmt.Errorf("enforceNodeAllocatable: %w", err)
	}
	return t, nil
}

// cgroupConfig returns the configuration of the pods' cgroups with the runtime's driver.
func (a *agent) cgroupConfig(driver cgroup.Driver, enforced v1.ResourceList) tree.Config {
	c := tree.Config{State: filepath.Join(a.root, "cgroups"), Driver: driver, NoCPUQuota: !*a.kubelet.CPUCFSQuota, PodPIDs: max(*a.kubelet.PodPidsLimit, 0), Log: a.log}
	if a.pins != nil {
		c.ExclusiveCPUs = a.pins.HasCPUs
	}
	if driver == cgroup.Systemd {
		c.Slices = a.systemd
	}
	if root := strings.Trim(a.kubelet.CgroupRoot, "/"); root != "" {
		c.Root = path.Join("/", root, cgroup.DefaultRoot)
	}
	if a.kubelet.CPUCFSQuotaPeriod != nil {
		c.CPUPeriod = a.kubelet.CPUCFSQuotaPeriod.Duration
	}
	if config.LimitsPods(a.kubelet) {
		c.Allocatable = enforced
	}
	return c
}
