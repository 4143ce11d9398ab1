package tree

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// Slices has systemd make and remove slices. Its methods are called one at a time.
type Slices interface {
	// SetSlice creates or updates a slice. path is its cgroup's path, whose last element is the
	// unit's name; the slices above it exist. The settings of r are properties: CPUWeight or
	// CPUShares, CPUQuotaPerSecUSec, MemoryMax, TasksMax. Do not set Delegate.
	SetSlice(ctx context.Context, path string, r cgroup.Resources) error
	// LimitSlice updates the properties of an existing slice for which r has a value. All others keep
	// theirs.
	LimitSlice(ctx context.Context, path string, r cgroup.Resources) error
	// RemoveSlice stops a slice without processes. It succeeds if the slice does not exist.
	RemoveSlice(ctx context.Context, path string) error
}

// RuntimeConfigurer is the part of a runtime that returns its cgroup driver. A *cri.Client
// implements it.
type RuntimeConfigurer interface {
	RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest, ...grpc.CallOption) (*runtimeapi.RuntimeConfigResponse, error)
}

// DriverOf returns the cgroup driver of a runtime. A runtime that cannot report it, such as containerd 1.6,
// causes an error of class cri.ErrUnimplemented: the driver must then be configured.
func DriverOf(ctx context.Context, r RuntimeConfigurer) (cgroup.Driver, error) {
	if r == nil {
		return "", errors.New("cgroup driver of the runtime: no runtime was passed")
	}
	resp, err := r.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	if err != nil {
		return "", fmt.Errorf("cgroup driver of the runtime: %w", cri.Classify(err))
	}
	if resp.GetLinux() == nil {
		return "", errors.New("cgroup driver of the runtime: it is not one of Linux")
	}
	switch d := resp.GetLinux().GetCgroupDriver(); d {
	case runtimeapi.CgroupDriver_SYSTEMD:
		return cgroup.Systemd, nil
	case runtimeapi.CgroupDriver_CGROUPFS:
		return cgroup.Cgroupfs, nil
	default:
		return "", fmt.Errorf("cgroup driver of the runtime: %v is not known", d)
	}
}
