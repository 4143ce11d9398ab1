package tree

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// systemd makes the directories of a slice, but none for huge pages.
type systemd struct {
	*fakeKernel
	trees []string
}

func (s systemd) SetSlice(_ context.Context, at string, _ cgroup.Resources) error {
	for _, tree := range s.trees {
		dir := filepath.Join(s.dir, tree, at)
		if err := os.Mkdir(dir, 0o755); os.IsExist(err) {
			continue
		}
		for _, file := range files(tree) {
			s.write(path.Join(tree, at, file), "")
		}
		if tree == "." {
			s.write(path.Join(at, "hugetlb.2MB.max"), "")
		}
	}
	return nil
}

func (systemd) LimitSlice(context.Context, string, cgroup.Resources) error { return nil }

func (systemd) RemoveSlice(context.Context, string) error { return nil }

// A slice has the limits of huge pages of its pod, though systemd has no property for them.
func TestHugePagesOfSlices(t *testing.T) {
	pod := burstable("u1", "1", "1Gi")
	pages := v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
	for name, q := range pages {
		pod.Spec.Containers[0].Resources.Requests[name] = q
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{name: q}
	}
	for v, want := range map[cgroup.Version]map[string]string{
		cgroup.V1: {
			"hugetlb/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu1.slice/hugetlb.2MB.limit_in_bytes": "4194304",
			"hugetlb/kubepods.slice/hugetlb.2MB.limit_in_bytes":                                                         "-1",
		},
		cgroup.V2: {
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu1.slice/hugetlb.2MB.max": "4194304",
			"kubepods.slice/hugetlb.2MB.max": "max",
		},
	} {
		k := newKernel(t, v)
		s, controller := systemd{k, []string{"cpu", "memory", "pids"}}, "hugetlb"
		if v == cgroup.V2 {
			s.trees, controller = []string{"."}, "."
			k.write("cgroup.controllers", "cpu hugetlb memory pids\n")
		} else {
			k.must(os.Mkdir(filepath.Join(k.dir, "hugetlb"), 0o755))
			k.write("hugetlb/cgroup.procs", "")
		}
		tree := k.agent(func(c *Config) { c.Driver, c.Slices = cgroup.Systemd, s })
		tree.kernel.controllers["hugetlb"], tree.kernel.pages = controller, []int64{2 << 20}
		tree.afterMkdir = func(mount *os.Root, dir string) error {
			if !strings.HasPrefix(dir, "hugetlb/") {
				t.Errorf("version %d: %s is made beside systemd", v, dir)
			}
			return mount.WriteFile(path.Join(dir, "hugetlb.2MB.limit_in_bytes"), nil, 0o600)
		}
		ensure(t, tree, pod)
		k.want(want)
		if v == cgroup.V2 && k.has("kubepods.slice/cgroup.subtree_control") == "" { // the fake keeps the last of several writes
			t.Error("the controllers below the slice stay off")
		}
	}
}
