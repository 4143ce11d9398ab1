package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/volume/local"
)

func resources(name v1.ResourceName, amount string) v1.ResourceRequirements {
	list := v1.ResourceList{name: resource.MustParse(amount)}
	return v1.ResourceRequirements{Limits: list, Requests: list}
}

// An emptyDir in memory is limited by its sizeLimit and by the memory limits of the containers (kubernetes #94444).
func TestV17_SizeOfAnEmptyDirInMemory(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	for name, tc := range map[string]struct {
		limit       string
		allocatable string
		change      func(*v1.PodSpec)
		want        string
	}{
		"a limit of a container":          {change: func(s *v1.PodSpec) { s.Containers[0].Resources = resources("memory", "64Mi") }, want: "64Mi"},
		"a larger sizeLimit":              {limit: "1Gi", change: func(s *v1.PodSpec) { s.Containers[0].Resources = resources("memory", "64Mi") }, want: "64Mi"},
		"a smaller sizeLimit":             {limit: "1Mi", change: func(s *v1.PodSpec) { s.Containers[0].Resources = resources("memory", "64Mi") }, want: "1Mi"},
		"a sizeLimit of zero":             {limit: "0", change: func(s *v1.PodSpec) { s.Containers[0].Resources = resources("memory", "64Mi") }, want: "64Mi"},
		"no limit of a container":         {limit: "2Mi", want: "2Mi"},
		"the node's memory":               {allocatable: "32Mi", want: "32Mi"},
		"more than the node's memory":     {allocatable: "32Mi", limit: "1Gi", want: "32Mi"},
		"the limit of the pod as a whole": {change: func(s *v1.PodSpec) { r := resources("memory", "16Mi"); s.Resources = &r }, want: "16Mi"},
		"a large init container": {change: func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{Name: "i", Resources: resources("memory", "8Mi")}}
		}, want: "8Mi"},
		"two containers and a sidecar": {change: func(s *v1.PodSpec) {
			s.Containers[0].Resources = resources("memory", "4Mi")
			s.Containers = append(s.Containers, v1.Container{Name: "b", Resources: resources("memory", "4Mi")})
			s.InitContainers = []v1.Container{{Name: "s", RestartPolicy: &always, Resources: resources("memory", "8Mi")}}
		}, want: "16Mi"},
	} {
		dir := t.TempDir()
		needsMount(t, dir)
		source := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
		if tc.limit != "" {
			source.SizeLimit = ptr(resource.MustParse(tc.limit))
		}
		pod := podWith(named("vol", v1.VolumeSource{EmptyDir: source}))
		if tc.change != nil {
			tc.change(&pod.Spec)
		}
		var c local.Config
		if tc.allocatable != "" {
			c.Allocatable = v1.ResourceList{v1.ResourceMemory: resource.MustParse(tc.allocatable)}
		}
		setUp(t, newVolumes(t, c), pod, dir)
		want := resource.MustParse(tc.want)
		if f := fileSystem(t, filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")); f.Type != tmpfsMagic || int64(f.Blocks)*f.Bsize != want.Value() {
			t.Errorf("%s: type %x of %d bytes, want a tmpfs of %v", name, f.Type, int64(f.Blocks)*f.Bsize, tc.want)
		}
	}
}

const hugetlbfsMagic = 0x958458f6

// An emptyDir may be on huge pages, of the size that the containers request (kubernetes #52337).
func TestV18_EmptyDirOnHugePages(t *testing.T) {
	probe := t.TempDir()
	if err := syscall.Mount("hugetlbfs", probe, "hugetlbfs", 0, "pagesize=2097152"); err != nil {
		t.Skipf("needs the right to mount, and huge pages: %v", err)
	}
	must.Do(t, syscall.Unmount(probe, 0))
	for name, tc := range map[string]struct {
		medium  v1.StorageMedium
		request v1.ResourceName
		another v1.ResourceName
		want    string
	}{
		"the only size":     {medium: "HugePages", request: "hugepages-2Mi"},
		"a named size":      {medium: "HugePages-2Mi", request: "hugepages-2Mi", another: "hugepages-1Gi"},
		"the same size":     {medium: "HugePages-2048Ki", request: "hugepages-2Mi"},
		"several sizes":     {medium: "HugePages", request: "hugepages-2Mi", another: "hugepages-1Gi", want: "ambiguous"},
		"no request":        {medium: "HugePages", request: "memory", want: "requests huge pages"},
		"another request":   {medium: "HugePages-2Mi", request: "hugepages-1Gi", want: "requests huge pages"},
		"an invalid size":   {medium: "HugePages-2X", request: "hugepages-2Mi", want: "no valid size"},
		"a negative size":   {medium: "HugePages--2Mi", request: "hugepages-2Mi", want: "no valid size"},
		"an unknown medium": {medium: "Tape", request: "hugepages-2Mi", want: "not supported"},
	} {
		dir := t.TempDir()
		needsMount(t, dir)
		pod := podWith(named("vol", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: tc.medium}}))
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(1234))}
		pod.Spec.Containers[0].Resources = resources(tc.request, "4Mi")
		if tc.another != "" {
			pod.Spec.InitContainers = []v1.Container{{Name: "i", Resources: resources(tc.another, "1Gi")}}
		}
		v, at := newVolumes(t, local.Config{}), filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
		err := v.SetUp(t.Context(), pod, dir)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f := fileSystem(t, at); f.Type != hugetlbfsMagic || f.Bsize != 2<<20 {
			t.Errorf("%s: type %x with blocks of %d bytes, want huge pages of 2Mi", name, f.Type, f.Bsize)
		}
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o777 || info.Sys().(*syscall.Stat_t).Gid != 1234 {
			t.Errorf("%s: %v, %v, want a directory for all, of the group", name, info.Mode(), err)
		}
		if err := v.TearDown(t.Context(), pod.UID, dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := mounts.Below(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: mounted after TearDown: %q, %v", name, left, err)
		}
	}
}
