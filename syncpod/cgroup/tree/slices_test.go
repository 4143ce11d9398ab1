package tree

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// answer is a runtime with a fixed RuntimeConfig.
type answer struct {
	resp *runtimeapi.RuntimeConfigResponse
	err  error
}

func (a answer) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest, ...grpc.CallOption) (*runtimeapi.RuntimeConfigResponse, error) {
	return a.resp, a.err
}

func TestPodsCgroup(t *testing.T) {
	for driver, want := range map[cgroup.Driver]string{cgroup.Cgroupfs: "/edge/kubepods", cgroup.Systemd: "/edge.slice/edge-kubepods.slice"} {
		k := newKernel(t, cgroup.V2)
		made, err := New(Config{Mount: k.dir, State: k.state, Root: "/edge/kubepods", Driver: driver, Slices: noSlices{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := made.PodsCgroup(); got != want {
			t.Errorf("%s: %s, want %s", driver, got, want)
		}
	}
}

type noSlices struct{ Slices }

func TestDriverOf(t *testing.T) {
	with := func(d runtimeapi.CgroupDriver) answer {
		return answer{resp: &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: d}}}
	}
	for want, a := range map[cgroup.Driver]answer{
		cgroup.Systemd: with(runtimeapi.CgroupDriver_SYSTEMD), cgroup.Cgroupfs: with(runtimeapi.CgroupDriver_CGROUPFS),
	} {
		if got, err := DriverOf(t.Context(), a); err != nil || got != want {
			t.Errorf("%s, error %v; want %s", got, err, want)
		}
	}
	for want, a := range map[string]answer{"not one of Linux": {resp: &runtimeapi.RuntimeConfigResponse{}}, "99 is not known": with(99)} {
		if _, err := DriverOf(t.Context(), a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := DriverOf(t.Context(), answer{err: status.Error(codes.Unimplemented, "unknown method")}); !errors.Is(err, cri.ErrUnimplemented) {
		t.Errorf("error %v", err)
	}
}
