package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume/local"
)

var _ poddir.Volumes = (*local.Volumes)(nil)

func ptr[T any](v T) *T { return &v }

// store is ConfigMaps and Secrets by name.
type store struct {
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
}

func (s *store) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if cm := s.configMaps[namespace+"/"+name]; cm != nil {
		return cm, nil
	}
	return nil, env.ErrNotFound
}

func (s *store) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	if secret := s.secrets[namespace+"/"+name]; secret != nil {
		return secret, nil
	}
	return nil, env.ErrNotFound
}

func newStore() *store {
	return &store{
		configMaps: map[string]*v1.ConfigMap{"shop/conf": {Data: map[string]string{"a.conf": "A", "b.conf": "B"}, BinaryData: map[string][]byte{"c.bin": {0, 1}}}},
		secrets:    map[string]*v1.Secret{"shop/keys": {Data: map[string][]byte{"tls.key": []byte("hush"), "tls.crt": []byte("hello")}}},
	}
}

func newVolumes(t *testing.T, c local.Config) *local.Volumes {
	t.Helper()
	return must.Get(local.New(c))(t)
}

// unprivileged has all sources and mounts nothing.
func unprivileged(t *testing.T) *local.Volumes {
	s := newStore()
	return newVolumes(t, local.Config{ConfigMaps: s, Secrets: s, Unprivileged: true})
}

// podWith mounts each volume once, at /<name>.
func podWith(volumes ...v1.Volume) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u-1", Labels: map[string]string{"app": "web"}}}
	pod.Spec.Volumes = volumes
	c := v1.Container{Name: "app"}
	for _, vol := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: vol.Name, MountPath: "/" + vol.Name})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

func named(name string, source v1.VolumeSource) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: source}
}

func emptyDir() v1.VolumeSource {
	return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
}

func setUp(t *testing.T, v *local.Volumes, pod *v1.Pod, dir string) {
	t.Helper()
	before := pod.DeepCopy()
	must.Do(t, v.SetUp(t.Context(), pod, dir))
	if !reflect.DeepEqual(pod, before) {
		t.Error("the pod was written to")
	}
}

func mountsOf(t *testing.T, v *local.Volumes, pod *v1.Pod, dir string) []*runtimeapi.Mount {
	t.Helper()
	m := must.Get(v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0]}, dir))(t)
	return m.Mounts
}

// tree lists the files below a directory as "path mode content", without names that
// begin with "..".
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	var walk func(rel string)
	walk = func(rel string) {
		entries := must.Get(os.ReadDir(filepath.Join(dir, rel)))(t)
		for _, e := range entries {
			name := filepath.Join(rel, e.Name())
			if strings.HasPrefix(e.Name(), "..") {
				continue
			}
			info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
			if info.IsDir() {
				walk(name)
				continue
			}
			data := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
			list = append(list, fmt.Sprintf("%s %04o %s", name, info.Mode().Perm(), data))
		}
	}
	walk(".")
	return list
}

func TestEmptyDir(t *testing.T) {
	v, dir := unprivileged(t), t.TempDir()
	pod := podWith(named("cache", emptyDir()))
	setUp(t, v, pod, dir)
	path := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/cache")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeDir|0o777 {
		t.Fatalf("%v, %v, want a directory for all", info.Mode(), err)
	}
	must.Do(t, os.WriteFile(filepath.Join(path, "file"), []byte("kept"), 0o600))
	setUp(t, v, pod, dir)
	if got := tree(t, path); len(got) != 1 {
		t.Errorf("after another SetUp: %q", got)
	}
	want := &runtimeapi.Mount{ContainerPath: "/cache", HostPath: path, SelinuxRelabel: true}
	if got := mountsOf(t, v, pod, dir); len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestVolumesThatCannotBeMade(t *testing.T) {
	item := func(path string) v1.DownwardAPIVolumeFile {
		return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	}
	for _, tt := range []struct {
		source v1.VolumeSource
		want   []string
	}{
		{v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}, []string{`volume "vol" (nfs) of pod shop/web`, "there is no provider"}},
		{v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}, []string{"(persistentVolumeClaim)", "there is no provider"}},
		{v1.VolumeSource{}, []string{"(of no kind)"}},
		{v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}, []string{"emptyDir.medium Memory needs the right to mount"}},
		{v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "Tape"}}, []string{`emptyDir.medium "Tape" is not supported`}},
		{v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}}}, []string{`configMap "none"`, "not found"}},
		{v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none"}}, []string{`secret "none"`, "not found"}},
		{v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{}, {ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}}}},
			[]string{"projected.sources[0]", "there is no provider"}},
		{v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t"}}}}},
			[]string{"no source of tokens (syncpod.Config.Objects.Tokens)"}},
		{v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{Path: "x", FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.secret"}}}}},
			[]string{"downwardAPI.items[0]", "spec.secret"}},
		{v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{Path: "x"}}}}, []string{"downwardAPI.items[0]"}},
		{v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{item("../x")}}}, []string{"downwardAPI.items[0]: path of a file"}},
		{v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{item("a"), item("a/b/c")}}},
			[]string{`downwardAPI.items[1]: file "a/b/c" cannot be beside file "a" of another`}},
		{v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{item("x"), item("a/b/c")}}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{item("a/b")}}},
		}}}, []string{`projected.sources[1]: downwardAPI.items[0]: file "a/b" cannot be beside file "a/b/c" of another`}},
	} {
		err := unprivileged(t).SetUp(t.Context(), podWith(named("vol", tt.source)), t.TempDir())
		if err == nil {
			t.Errorf("%v: no error", tt.want)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q in it", err, want)
			}
		}
	}
}

func TestVolumesWithoutSources(t *testing.T) {
	v := newVolumes(t, local.Config{Unprivileged: true})
	pod := podWith(
		named("cm", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}}}),
		named("s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}),
	)
	err := v.SetUp(t.Context(), pod, t.TempDir())
	for _, want := range []string{"no source of ConfigMaps (syncpod.Config.Objects.ConfigMaps)", "no source of Secrets (syncpod.Config.Objects.Secrets)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q: all are tried", err, want)
		}
	}
}

// A volume that no container mounts is not created, regardless of its type.
func TestUnusedVolumesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	pod := podWith(named("nfs", v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}), named("cache", emptyDir()))
	pod.Spec.Containers[0].VolumeMounts = nil
	setUp(t, unprivileged(t), pod, dir)
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("made %v, want no entries", entries)
	}
	pod.Spec.InitContainers = []v1.Container{{Name: "i", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/c"}}}}
	setUp(t, unprivileged(t), pod, dir)
	must.Get(os.Stat(filepath.Join(dir, "volumes/kubernetes.io~empty-dir/cache")))(t)
}

func TestNamesDoNotLeadOut(t *testing.T) {
	for _, name := range []string{"..", "../../x", "a/b", ""} {
		top := t.TempDir()
		pod := podWith(named(name, emptyDir()))
		if err := unprivileged(t).SetUp(t.Context(), pod, filepath.Join(top, "pod")); err == nil || !strings.Contains(err.Error(), "volume name") {
			t.Errorf("volume %q: %v, want an error and %q in it", name, err, "volume name")
		}
		if entries, _ := os.ReadDir(top); len(entries) > 0 {
			t.Errorf("volume %q has made %v", name, entries)
		}
	}
}

func TestMissingArguments(t *testing.T) {
	v := unprivileged(t)
	_, err := v.Mounts(t.Context(), container.MountRequest{}, t.TempDir())
	if err == nil || v.SetUp(t.Context(), nil, t.TempDir()) == nil {
		t.Error("a missing object is no error")
	}
	must.Do(t, v.TearDown(t.Context(), "u-1", filepath.Join(t.TempDir(), "none")))
}

func TestHostPath(t *testing.T) {
	v, top := unprivileged(t), t.TempDir()
	file, folder := filepath.Join(top, "file"), filepath.Join(top, "folder")
	must.Do(t, errors.Join(os.WriteFile(file, []byte("kept"), 0o600), os.Mkdir(folder, 0o700)))
	for _, tt := range []struct {
		path  string
		kind  v1.HostPathType
		fault string
	}{
		{filepath.Join(top, "none"), v1.HostPathUnset, ""},
		{folder, v1.HostPathDirectory, ""},
		{file, v1.HostPathFile, ""},
		{file, v1.HostPathFileOrCreate, ""},
		{folder, v1.HostPathDirectoryOrCreate, ""},
		{filepath.Join(top, "new", "below"), v1.HostPathDirectoryOrCreate, ""},
		{filepath.Join(top, "newfile"), v1.HostPathFileOrCreate, ""},
		{filepath.Join(top, "nowhere", "newfile"), v1.HostPathFileOrCreate, "no such file"},
		{filepath.Join(top, "none"), v1.HostPathDirectory, "hostPath type check failed: Directory: "},
		{file, v1.HostPathDirectory, "hostPath type check failed: hostPath.path " + file + " is not of type Directory"},
		{file, v1.HostPathDirectoryOrCreate, "is not of type DirectoryOrCreate"},
		{folder, v1.HostPathFile, "is not of type File"},
		{folder, v1.HostPathFileOrCreate, "is not of type FileOrCreate"},
		{file, v1.HostPathSocket, "is not of type Socket"},
		{file, v1.HostPathCharDev, "is not of type CharDevice"},
		{os.DevNull, v1.HostPathCharDev, ""},
		{os.DevNull, v1.HostPathBlockDev, "is not of type BlockDevice"},
		{file, "Fifo", `"Fifo" is not known`},
		{"relative", v1.HostPathUnset, "not an absolute path"},
		{top + "/../etc", v1.HostPathUnset, ".. as an element"},
	} {
		pod := podWith(named("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: tt.path, Type: &tt.kind}}))
		err := v.SetUp(t.Context(), pod, t.TempDir())
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%s as %q: %v, want %q", tt.path, tt.kind, err, tt.fault)
		}
	}
	for path, want := range map[string]fs.FileMode{"new/below": fs.ModeDir | 0o755, "newfile": 0o644} {
		if info, err := os.Stat(filepath.Join(top, path)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info, err, want)
		}
	}
	if content, _ := os.ReadFile(file); string(content) != "kept" {
		t.Errorf("the file now has %q", content)
	}
	pod := podWith(named("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: file}}))
	if got := mountsOf(t, v, pod, t.TempDir()); !proto.Equal(got[0], &runtimeapi.Mount{ContainerPath: "/host", HostPath: file}) {
		t.Errorf("%v, want nothing but the two paths", got)
	}
}
