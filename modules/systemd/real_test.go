package systemd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/systemd"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
)

// TestRealSystemd lets package tree create, change and remove the slice of a pod on a systemd of its own, and reads the
// kernel's settings after each step:
//
//	./real.sh /root/sd go test -count=1 -v -run RealSystemd .
func TestRealSystemd(t *testing.T) {
	address, group := os.Getenv("PODSYNC_SYSTEMD"), os.Getenv("PODSYNC_SYSTEMD_CGROUP")
	if address == "" {
		t.Skip("PODSYNC_SYSTEMD is not set: real.sh sets it")
	}
	s := must.Get(systemd.New(systemd.Config{Address: address, Version: cgroup.V1}))(t)
	defer s.Close()
	mount := seenBySystemd(t, group)
	cgroups, err := tree.New(tree.Config{State: t.TempDir(), Mount: mount, Driver: cgroup.Systemd, Slices: s, PodPIDs: 100, Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Gi")}})
	must.Do(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "11-22"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("128Mi")},
	}}}}}
	at := must.Get(cgroups.EnsureCgroup(t.Context(), pod))(t)
	if at != "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11_22.slice" {
		t.Errorf("the slice is %s", at)
	}
	want := func(files map[string]string) {
		t.Helper()
		for file, value := range files {
			text, err := os.ReadFile(filepath.Join(mount, file))
			if err != nil || strings.TrimSpace(string(text)) != value {
				t.Errorf("%s is %q, %v, want %s", file, text, err, value)
			}
		}
	}
	want(map[string]string{
		"cpu" + at + "/cpu.shares": "256", "cpu" + at + "/cpu.cfs_quota_us": "50000", "cpu" + at + "/cpu.cfs_period_us": "100000",
		"memory" + at + "/memory.limit_in_bytes": "134217728", "pids" + at + "/pids.max": "100", "memory/kubepods.slice/memory.limit_in_bytes": "2147483648",
	})
	pod.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse("256Mi")
	delete(pod.Spec.Containers[0].Resources.Limits, v1.ResourceCPU)
	must.Get(cgroups.EnsureCgroup(t.Context(), pod))(t)
	want(map[string]string{"cpu" + at + "/cpu.cfs_quota_us": "-1", "memory" + at + "/memory.limit_in_bytes": "268435456"})
	must.Do(t, cgroups.RemovePod(t.Context(), pod.UID))
	for _, controller := range []string{"cpu", "memory", "pids", "systemd"} {
		if _, err := os.Stat(filepath.Join(mount, controller, at)); !os.IsNotExist(err) {
			t.Errorf("%s%s is still there: %v", controller, at, err)
		}
	}
}

// seenBySystemd returns a directory with the cgroup trees that this systemd sees.
func seenBySystemd(t *testing.T, group string) string {
	t.Helper()
	pid, _, _ := strings.Cut(strings.TrimPrefix(os.Getenv("PODSYNC_SYSTEMD"), "unix:path=/proc/"), "/")
	mount := filepath.Join("/proc", pid, "root/sys/fs/cgroup")
	must.Get(os.Stat(filepath.Join("/sys/fs/cgroup/memory", group)))(t)
	return mount
}
