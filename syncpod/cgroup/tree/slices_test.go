package tree

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
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
		must.Do(t, err)
		if got := made.PodsCgroup(); got != want {
			t.Errorf("%s: %s, want %s", driver, got, want)
		}
	}
}

// The cgroup of all pods exists before the first pod, with its limits.
func TestPodsCgroupBeforeTheFirstPod(t *testing.T) {
	for version, want := range map[cgroup.Version]map[string]string{
		cgroup.V1: {"memory/kubepods/memory.limit_in_bytes": "1073741824", "cpu/kubepods/burstable/cpu.shares": "2", "cpu/kubepods/besteffort/cpu.shares": "2", "pids/kubepods/pids.max": "max"},
		cgroup.V2: {"kubepods/memory.max": "1073741824", "kubepods/burstable/cpu.weight": "1", "kubepods/besteffort/cpu.weight": "1"},
	} {
		k := newKernel(t, version)
		tree := k.agent(func(c *Config) { c.Allocatable = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")} })
		for range 2 {
			must.Do(t, tree.EnsurePodsCgroup(t.Context()))
		}
		k.want(want)
	}
	// The settings of an earlier agent's pods stay.
	k := newKernel(t, cgroup.V2)
	must.Get(k.agent().EnsureCgroup(t.Context(), burstable("u", "1", "1Gi")))(t)
	before := k.has("kubepods/burstable/cpu.weight")
	if err := k.agent().EnsurePodsCgroup(t.Context()); err != nil || before == "1" {
		t.Fatalf("%v, weight %s", err, before)
	}
	k.want(map[string]string{"kubepods/burstable/cpu.weight": before})
	// So do those of a class whose pods are not recorded, because a kubelet has created them.
	k = newKernel(t, cgroup.V2)
	k.must(k.agent().EnsurePodsCgroup(t.Context()))
	k.write("kubepods/burstable/cpu.weight", "42")
	k.must(k.agent().EnsurePodsCgroup(t.Context()))
	k.want(map[string]string{"kubepods/burstable/cpu.weight": "42"})
	k = newKernel(t, cgroup.V2)
	tree := k.agent()
	k.must(os.RemoveAll(k.dir))
	if err := tree.EnsurePodsCgroup(t.Context()); err == nil || !strings.Contains(err.Error(), "/kubepods") {
		t.Errorf("without the kernel's trees: %v", err)
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
