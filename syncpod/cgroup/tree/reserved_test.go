package tree

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// reserved is a reservation of half a CPU, 64 MiB and 100 processes.
var reserved = v1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("64Mi"), "pid": resource.MustParse("100"), "ephemeral-storage": resource.MustParse("1Gi")}

// machine makes a cgroup that is not the tree's, with other limits.
func (k *fakeKernel) machine(name string, trees ...string) {
	k.t.Helper()
	for _, tree := range trees {
		k.must(os.MkdirAll(filepath.Join(k.dir, tree, name), 0o755))
		for _, file := range files(tree) {
			k.write(filepath.Join(tree, name, file), "7")
		}
	}
}

// Only the settings that are given change.
func TestLimitCgroup(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	k.machine("system", "cpu", "memory", "pids")
	k.write("memory/system/memory.stat", "total_inactive_file 0\n")
	tree := k.agent()
	must.Do(t, tree.LimitCgroup(t.Context(), "/system", reserved))
	k.want(map[string]string{
		"cpu/system/cpu.shares": "512", "cpu/system/cpu.cfs_quota_us": "7", "cpu/system/cpu.cfs_period_us": "7",
		"memory/system/memory.limit_in_bytes": "67108864", "pids/system/pids.max": "100",
	})
	must.Do(t, tree.LimitCgroup(t.Context(), "/system", v1.ResourceList{"cpu": resource.MustParse("2")}))
	k.want(map[string]string{"cpu/system/cpu.shares": "2048", "memory/system/memory.limit_in_bytes": "67108864", "pids/system/pids.max": "100"})

	k = newKernel(t, cgroup.V2)
	k.machine("system", ".")
	k.write("system/memory.stat", "inactive_file 0\n")
	must.Do(t, k.agent().LimitCgroup(t.Context(), "system", reserved))
	k.want(map[string]string{"system/cpu.weight": "20", "system/cpu.max": "7", "system/memory.max": "67108864", "system/pids.max": "100", "system/memory.min": "7"})
}

// A cgroup that is missing, or uses more memory than its reservation, is not limited.
func TestLimitCgroupRefuses(t *testing.T) {
	k := newKernel(t, cgroup.V2)
	k.machine("system", ".")
	k.write("system/memory.current", "67108865\n")
	k.write("system/memory.stat", "inactive_file 0\n")
	tree := k.agent()
	if err := tree.LimitCgroup(t.Context(), "/system", reserved); !errors.Is(err, cgroup.ErrMemoryInUse) {
		t.Errorf("memory in use: %v", err)
	}
	k.want(map[string]string{"system/memory.max": "7", "system/cpu.weight": "7"})
	k.write("system/memory.stat", "inactive_file 0\nactive_file 1\nslab_reclaimable 0\n") // the kernel can reclaim it
	must.Do(t, tree.LimitCgroup(t.Context(), "/system", reserved))
	for name, want := range map[string]string{"/missing": "does not exist", "/": "root of the tree", "": "root of the tree", "/a/../..": "..", "/system/x": "does not exist"} {
		if err := tree.LimitCgroup(t.Context(), name, reserved); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", name, err, want)
		}
	}
	if err := tree.LimitCgroup(t.Context(), "/system", v1.ResourceList{"cpu": resource.MustParse("-1")}); err == nil {
		t.Error("a negative amount is accepted")
	}
}

// With the driver systemd the limits of a slice are its properties.
func TestLimitSlice(t *testing.T) {
	k := newKernel(t, cgroup.V2)
	k.machine("edge.slice/edge-system.slice", ".")
	k.write("edge.slice/edge-system.slice/memory.stat", "inactive_file 0\n")
	s := &fakeSlices{}
	tree := k.agent(func(c *Config) { c.Driver, c.Slices = cgroup.Systemd, s })
	must.Do(t, tree.LimitCgroup(t.Context(), "/edge.slice/edge-system.slice", reserved))
	if want := []string{"limit /edge.slice/edge-system.slice 512 67108864"}; !reflect.DeepEqual(s.asked, want) {
		t.Errorf("asked for %q, want %q", s.asked, want)
	}
	if err := tree.LimitCgroup(t.Context(), "/edge.slice/agent.service", reserved); err == nil || !strings.Contains(err.Error(), "must be a slice") {
		t.Errorf("a service: %v", err)
	}
}
