package local_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// needsMount skips the test if the process may not mount, and unmounts what the test
// leaves.
func needsMount(t *testing.T, dir string) {
	t.Helper()
	probe := t.TempDir()
	if err := syscall.Mount("tmpfs", probe, "tmpfs", 0, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	must.Do(t, syscall.Unmount(probe, 0))
	t.Cleanup(func() {
		left, _ := mounts.Below(dir)
		for _, point := range left {
			_ = syscall.Unmount(point, syscall.MNT_DETACH)
		}
	})
}

func fileSystem(t *testing.T, path string) syscall.Statfs_t {
	t.Helper()
	var s syscall.Statfs_t
	must.Do(t, syscall.Statfs(path, &s))
	return s
}

const tmpfsMagic = 0x01021994

func TestVolumesInMemory(t *testing.T) {
	dir := t.TempDir()
	needsMount(t, dir)
	s := newStore()
	v := newVolumes(t, local.Config{ConfigMaps: s, Secrets: s, Tokens: tokensFunc(func(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
		return "sesame", nil
	})})
	projected := func(source v1.VolumeProjection) v1.VolumeSource {
		return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: conf().LocalObjectReference}}, source}}}
	}
	pod := podWith(
		named("scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: ptr(resource.MustParse("1Mi"))}}),
		named("keys", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}),
		named("conf", v1.VolumeSource{ConfigMap: conf()}),
		named("some-keys", projected(v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}}})),
		named("token", projected(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}})),
		named("no-secret", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: projected(v1.VolumeProjection{}).Projected.Sources[:1]}}),
	)
	scratch, keys := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/scratch"), filepath.Join(dir, "volumes/kubernetes.io~secret/keys")
	someKeys, token := filepath.Join(dir, "volumes/kubernetes.io~projected/some-keys"), filepath.Join(dir, "volumes/kubernetes.io~projected/token")
	inMemory := []string{scratch, someKeys, token, keys}
	for round := range 2 {
		setUp(t, v, pod, dir)
		if round == 0 {
			must.Do(t, os.WriteFile(filepath.Join(scratch, "kept"), nil, 0o600))
		} else if got := tree(t, scratch); len(got) != 1 {
			t.Errorf("after another SetUp: %q", got)
		}
		if points, err := mounts.Below(dir); err != nil || !slices.Equal(slices.Sorted(slices.Values(points)), inMemory) {
			t.Fatalf("mounted: %q, %v, want %q and no error", points, err, inMemory)
		}
	}
	if f := fileSystem(t, scratch); f.Type != tmpfsMagic || int64(f.Blocks)*f.Bsize != 1<<20 {
		t.Errorf("type %x of %d bytes, want a tmpfs of 1Mi", f.Type, int64(f.Blocks)*f.Bsize)
	}
	if info, err := os.Stat(scratch); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("%v, %v, want a directory for all", info.Mode(), err)
	}
	for _, path := range inMemory[1:] {
		if f := fileSystem(t, path); f.Type != tmpfsMagic {
			t.Errorf("%s with a secret is on a file system of type %x", path, f.Type)
		}
	}
	if got, want := tree(t, keys), []string{"tls.crt 0644 hello", "tls.key 0644 hush"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	foreign := filepath.Join(dir, "volumes/other")
	must.Do(t, errors.Join(os.Mkdir(foreign, 0o700), syscall.Mount("tmpfs", foreign, "tmpfs", 0, "")))
	for range 2 {
		must.Do(t, v.TearDown(t.Context(), pod.UID, dir))
	}
	if points, err := mounts.Below(dir); err != nil || !slices.Equal(points, []string{foreign}) {
		t.Errorf("mounted after TearDown: %q, %v, want only what others have mounted", points, err)
	}
}

// A directory that a container may rename is mounted on the node only until the container has started, because runc
// reads its path from the table of mounts. Directories that only the agent writes stay mounted.
func TestPinOfASubPathEndsWithTheStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod")
	needsMount(t, dir)
	v := newVolumes(t, local.Config{ConfigMaps: newStore()})
	pod := podWith(named("vol", emptyDir()), named("conf", v1.VolumeSource{ConfigMap: conf()}))
	app := &pod.Spec.Containers[0]
	app.VolumeMounts = []v1.VolumeMount{
		{Name: "vol", MountPath: "/data", SubPath: "a"}, {Name: "conf", MountPath: "/conf", SubPath: "a.conf"}, {Name: "vol", MountPath: "/more", SubPath: "b"},
	}
	setUp(t, v, pod, dir)
	place := func(name string) string { return filepath.Join(dir, "volume-subpaths", name) }
	want := func(when string, points ...string) {
		t.Helper()
		if got, err := mounts.Below(place("")); err != nil || !slices.Equal(got, points) {
			t.Errorf("%s: mounted are %q, %v, want %q", when, got, err, points)
		}
	}
	for range 2 {
		m := must.Get(v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: app}, dir))(t)
		want("before the start", place("vol/app/2"), place("vol/app/0"), place("conf/app/1"))
		must.Do(t, m.Release())
		want("after the start", place("conf/app/1"))
		if _, err := os.Lstat(place("vol/app/0")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, a late start must find nothing in place of the directory", err)
		}
	}
	app.VolumeMounts[2].SubPath = "../out"
	if m, err := v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: app}, dir); err == nil {
		t.Errorf("%v, want an error", m.Mounts)
	}
	want("after a mount that failed", place("conf/app/1"))
}

// Mounts of others in the directory of a subPath stay mounted after the start: an unmount of a shared mount
// would remove them (mount_namespaces(7)).
func TestMountsBelowAPinStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod")
	vol := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	needsMount(t, dir)
	must.Do(t, os.MkdirAll(vol, 0o700))
	must.Do(t, syscall.Mount("tmpfs", vol, "tmpfs", 0, ""))
	must.Do(t, syscall.Mount("", vol, "", syscall.MS_SHARED, ""))
	inner := filepath.Join(vol, "sub", "inner")
	must.Do(t, os.MkdirAll(inner, 0o700))
	pod := podWith(named("vol", emptyDir()))
	app := &pod.Spec.Containers[0]
	app.VolumeMounts = []v1.VolumeMount{{Name: "vol", MountPath: "/data", SubPath: "sub"}}
	m := must.Get(newVolumes(t, local.Config{}).Mounts(t.Context(), container.MountRequest{Pod: pod, Container: app}, dir))(t)
	must.Do(t, syscall.Mount("tmpfs", inner, "tmpfs", 0, ""))
	must.Do(t, m.Release())
	if at, err := mounts.At(inner); err != nil || !at {
		t.Errorf("mounted %v, %v, want that it is mounted still", at, err)
	}
}

// A subPath stays the directory that was checked, even if the container
// replaces it (CVE-2017-1002101).
func TestSubPathIsPinned(t *testing.T) {
	top := t.TempDir()
	dir, outside := filepath.Join(top, "pod"), filepath.Join(top, "outside")
	needsMount(t, dir)
	vol := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	v := newVolumes(t, local.Config{})
	setUp(t, v, podWith(named("vol", emptyDir())), dir)
	sub := filepath.Join(vol, "sub")
	err := errors.Join(os.Mkdir(outside, 0o700), os.Mkdir(sub, 0o700), os.WriteFile(filepath.Join(sub, "mine"), nil, 0o600))
	must.Do(t, err)
	got, err := subPathOf(t, v, dir, v1.VolumeMount{SubPath: "sub"})
	if want := filepath.Join(dir, "volume-subpaths/vol/app/0"); err != nil || got != want {
		t.Fatalf("%q, %v, want %q", got, err, want)
	}
	must.Do(t, errors.Join(os.Rename(sub, sub+"-moved"), os.Symlink(outside, sub)))
	must.Get(os.Stat(filepath.Join(got, "mine")))(t)
	if _, err := subPathOf(t, v, dir, v1.VolumeMount{SubPath: "sub"}); err == nil {
		t.Error("the next container gets what lies outside")
	}
	// The next container may have a file at the same place.
	must.Do(t, os.WriteFile(filepath.Join(vol, "file"), []byte("content"), 0o600))
	got = must.Get(subPathOf(t, v, dir, v1.VolumeMount{SubPath: "file"}))(t)
	if content, err := os.ReadFile(got); string(content) != "content" {
		t.Errorf("%q, %v, want %q", content, err, "content")
	}
}

// A container that has mounted a part of a ConfigMap keeps the files and directories of its start. The next container
// gets the current ones.
func TestSubPathIsNotUpdated(t *testing.T) {
	dir := t.TempDir()
	needsMount(t, dir)
	s := newStore()
	v := newVolumes(t, local.Config{ConfigMaps: s})
	pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf(v1.KeyToPath{Key: "a.conf", Path: "etc/a"})}))
	path := filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")
	for _, mount := range []v1.VolumeMount{{SubPath: "etc"}, {SubPath: "etc/a"}} {
		mount.Name = "vol"
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{mount}
		setUp(t, v, pod, dir)
		got := mountsOf(t, v, pod, dir)[0].HostPath
		read := func() string {
			t.Helper()
			text, err := os.ReadFile(filepath.Join(got, strings.TrimPrefix("etc/a", mount.SubPath)))
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		before := read()
		for _, text := range []string{"2", "3", "4"} {
			s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": mount.SubPath + text}}
			refresh(t, v, pod, dir)
			if after := read(); after != before || before == "" {
				t.Errorf("%s: it reads %q after %q", mount.SubPath, after, before)
			}
		}
		mountsOf(t, v, pod, dir)
		if after := read(); after != mount.SubPath+"4" {
			t.Errorf("%s: the next container reads %q", mount.SubPath, after)
		}
		refresh(t, v, pod, dir)
		if left, _ := filepath.Glob(path + "/..[0-9]*"); len(left) != 1 {
			t.Errorf("%s: left are %q", mount.SubPath, left)
		}
	}
}

// Together, both packages remove a pod's directory after the pod has stopped, including its
// mounts.
func TestPodDirectoryIsRemovedWithItsMounts(t *testing.T) {
	root := t.TempDir()
	needsMount(t, root)
	s := newStore()
	dirs, err := poddir.New(poddir.Config{Root: root, Volumes: newVolumes(t, local.Config{ConfigMaps: s, Secrets: s})})
	must.Do(t, err)
	pod := podWith(named("keys", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}), named("vol", emptyDir()))
	pod.Spec.Containers[0].VolumeMounts[1].SubPath = "sub"
	must.Get(dirs.PreparePod(t.Context(), pod))(t)
	m, err := dirs.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0], PodIPs: []string{"10.0.0.7"}})
	if err != nil || len(m.Mounts) != 3 {
		t.Fatalf("%v, %v, want two volumes and /etc/hosts", m.Mounts, err)
	}
	if points, err := mounts.Below(root); err != nil || len(points) != 2 {
		t.Errorf("mounted: %q, %v, want two mounts", points, err)
	}
	must.Do(t, dirs.RemovePod(t.Context(), pod.UID))
	if left, err := dirs.Pods(); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v, want nothing", left, err)
	}
}

// A container that renames what its subPath leads to keeps neither its own pin nor a volume of another pod.
func TestRenamedPinIsTornDown(t *testing.T) {
	top := t.TempDir()
	needsMount(t, top)
	victim, dir := filepath.Join(top, "victim"), filepath.Join(top, "pod")
	s := newStore()
	v := newVolumes(t, local.Config{ConfigMaps: s, Secrets: s})
	pod := podWith(named("vol", emptyDir()))
	setUp(t, v, pod, dir)
	vol := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "vol", MountPath: "/data", SubPath: "sub"}}
	must.Get(v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0]}, dir))(t)
	keys := filepath.Join(victim, "volumes/kubernetes.io~secret/keys")
	name := "x\r" + keys
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(vol, filepath.Dir(name)), 0o700), os.Rename(filepath.Join(vol, "sub"), filepath.Join(vol, name))))
	other := podWith(named("keys", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}))
	setUp(t, v, other, victim)
	if f := fileSystem(t, keys); f.Type != tmpfsMagic {
		t.Errorf("a secret is on a file system of type %x", f.Type)
	}
	for _, dir := range []string{victim, dir} {
		must.Do(t, v.TearDown(t.Context(), pod.UID, dir))
	}
	if points, err := mounts.Below(top); err != nil || len(points) > 0 {
		t.Errorf("mounted after TearDown: %q, %v", points, err)
	}
}

// While a container swaps what a subPath names for a link that leads out, the mount shows nothing outside of the volume.
func TestSubPathIsPinnedWhileItIsSwapped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod")
	needsMount(t, dir)
	v := newVolumes(t, local.Config{})
	setUp(t, v, podWith(named("vol", emptyDir())), dir)
	victim := flip(t, filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol/name"))
	must.Do(t, os.WriteFile(filepath.Join(victim, "secret"), nil, 0o600))
	mounted := 0
	for range 2000 {
		got, err := subPathOf(t, v, dir, v1.VolumeMount{SubPath: "name"})
		if err != nil {
			continue
		}
		mounted++
		if _, err := os.Stat(filepath.Join(got, "secret")); err == nil {
			t.Fatal("the mount shows what lies outside of the volume")
		}
	}
	if mounted == 0 {
		t.Error("nothing was mounted, so that nothing was tried")
	}
}
