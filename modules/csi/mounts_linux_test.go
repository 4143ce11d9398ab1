package csi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/source"
)

func isMountPoint(path string) bool {
	at, err := mounts.At(path)
	return at && err == nil
}

// needsMount skips the test if it may not mount. It returns a directory, which the cleanup removes if nothing is
// mounted in it.
func needsMount(t *testing.T) string {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs root and the right to mount: %v", err)
	}
	must.Do(t, syscall.Unmount(dir, 0))
	t.Cleanup(func() { // TempDir would delete the files in mounts that a failed test leaves
		points, _ := mounts.Below(dir)
		for _, point := range points {
			_ = syscall.Unmount(point, syscall.MNT_DETACH)
		}
	})
	return dir
}

// Both examples, with real mounts: the data outlives the pod, its agent and its directory, and the next pod reads it.
func TestExamples(t *testing.T) {
	for name, of := range map[string]func(dir string) (pv *v1.PersistentVolume, data, drive string){
		"driver": func(dir string) (*v1.PersistentVolume, string, string) {
			pv := persistent("disk-1", v1.ReadWriteOnce)
			pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle = "folders.example.com", "orders"
			return pv, filepath.Join(dir, "folders/orders"), filepath.Join(dir, "folders")
		},
		"local disk": func(dir string) (*v1.PersistentVolume, string, string) {
			disk := filepath.Join(dir, "ssd1")
			must.Do(t, os.Mkdir(disk, 0o755))
			return localVolume(disk), disk, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := needsMount(t)
			pv, data, drive := of(dir)
			for round, content := range []string{"", "first", "second"} {
				if round == 0 {
					continue
				}
				mounted := filepath.Join(dir, "root/pods", fmt.Sprint(round), "volumes", map[bool]string{true: "kubernetes.io~csi/disk-1/mount", false: "kubernetes.io~local-volume/disk-1"}[drive != ""])
				onAgent(t, pv, types.UID(fmt.Sprint(round)), filepath.Join(dir, "root"), drive, func() {
					if !isMountPoint(mounted) {
						t.Errorf("nothing is mounted at %s", mounted)
					}
					if before, _ := os.ReadFile(filepath.Join(mounted, "rows")); round == 2 && string(before) != "first" {
						t.Errorf("the second pod finds %q", before)
					}
					if err := os.WriteFile(filepath.Join(mounted, "rows"), []byte(content), 0o600); err != nil {
						t.Error(err)
					}
				})
				if text, err := os.ReadFile(filepath.Join(data, "rows")); string(text) != content {
					t.Errorf("data after the pod: %q, %v", text, err)
				}
				if points, err := mounts.Below(dir); err != nil || len(points) > 0 {
					t.Errorf("still mounted: %q, %v", points, err)
				}
			}
		})
	}
}

func localVolume(path string) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-1"}, Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
	}}
}

// onAgent runs an agent with the pod of the examples, calls f while the pod runs, and then deletes the pod.
func onAgent(t *testing.T, pv *v1.PersistentVolume, uid types.UID, root, drive string, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if drive != "" {
		running.Go(func() { _ = folders{dir: drive}.serve(ctx, root) })
	}
	statuses := make(chan v1.PodStatus, 1000)
	pods := source.NewPush()
	agent, manager, err := newAgent(pv, root, pods, statuses)
	must.Do(t, err)
	running.Go(func() {
		if err := manager.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() { _ = agent.Run(ctx) })
	must.Do(t, pods.Set(database(uid)))
	for s := range statuses {
		if s.Phase == v1.PodRunning {
			break
		}
	}
	f()
	must.Do(t, pods.Set())
	for dir := filepath.Join(root, "pods", string(uid)); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
}

// If another process unmounts a volume, it is mounted again before a container starts: the container must not write to
// the directory below (V10). A file in that directory is never deleted, so the pod's directory stays.
func TestV10_ALostMountIsMadeAgain(t *testing.T) {
	dir := needsMount(t)
	disk := filepath.Join(dir, "disk")
	must.Do(t, os.Mkdir(disk, 0o755))
	m := must.Get(csi.New(csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{localVolume(disk)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	pod := podOf("a", "data")
	target := filepath.Join(dir, "root/pods/a/volumes/kubernetes.io~local-volume/disk-1")
	for range 2 {
		if err := m.SetUp(ctx, pod, &pod.Spec.Volumes[0], ""); err != nil || !isMountPoint(target) {
			t.Fatalf("%v; mounted: %t", err, isMountPoint(target))
		}
		must.Do(t, syscall.Unmount(target, 0))
	}
	stray := filepath.Join(target, "written-below-the-mount")
	must.Do(t, os.WriteFile(stray, nil, 0o600))
	if err := m.TearDown(ctx, "a", ""); err == nil {
		t.Error("the directory may be removed")
	}
	must.Get(os.Stat(stray))(t)
}

// fsGroup changes the group of the files of a volume, and follows no link.
func TestFSGroup(t *testing.T) {
	dir := needsMount(t)
	disk, outside := filepath.Join(dir, "disk"), filepath.Join(dir, "outside")
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(disk, "a/b"), 0o700), os.WriteFile(filepath.Join(disk, "a/b/file"), nil, 0o600), os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(disk, "link"))))
	m := must.Get(csi.New(csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{localVolume(disk)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	pod, group := podOf("a", "data"), int64(4711)
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	must.Do(t, m.SetUp(ctx, pod, &pod.Spec.Volumes[0], ""))
	for path, want := range map[string]os.FileMode{"": 0o2770, "a": 0o2770, "a/b": 0o2770, "a/b/file": 0o660} {
		info := must.Get(os.Stat(filepath.Join(disk, path)))(t)
		stat := info.Sys().(*syscall.Stat_t)
		if stat.Gid != 4711 || os.FileMode(stat.Mode&0o7777)&want != want {
			t.Errorf("%q: group %d, mode %o, want 4711 and at least %o", path, stat.Gid, stat.Mode&0o7777, want)
		}
	}
	if info, err := os.Stat(outside); err != nil || info.Sys().(*syscall.Stat_t).Gid == 4711 || info.Mode().Perm() != 0o600 {
		t.Errorf("a file outside: %v, %v", info, err)
	}
	must.Do(t, m.TearDown(ctx, "a", ""))
}
