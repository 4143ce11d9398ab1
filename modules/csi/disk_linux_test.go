package csi_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// newDisk returns a block device of 16 MiB and the file that has its contents. It skips the test if the machine lacks
// loop devices or the programs for file systems.
func newDisk(t *testing.T, dir string) (device, file string) {
	t.Helper()
	for _, program := range []string{"losetup", "blkid", "mkfs.ext4", "fsck"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	file = filepath.Join(dir, "disk")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	must.Do(t, os.Truncate(file, 16<<20))
	text, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("no loop device: %v: %s", err, text)
	}
	device = strings.TrimSpace(string(text))
	t.Cleanup(func() {
		if text, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v: %s", err, text)
		}
	})
	return device, file
}

// manage runs a Manager until the test ends.
func manage(t *testing.T, c csi.Config) *csi.Manager {
	t.Helper()
	m := must.Get(csi.New(c))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return m
}

// A local PersistentVolume that is a block device gets a file system when its first pod starts, and keeps it. Two pods
// share the mount, which ends with the last of them.
func TestADiskGetsItsFileSystemOnce(t *testing.T) {
	dir := needsMount(t)
	device, _ := newDisk(t, dir)
	root := filepath.Join(dir, "root")
	m := manage(t, csi.Config{Root: root, Objects: csi.Static([]*v1.PersistentVolume{localVolume(device)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})})
	for _, uids := range [][]string{{"a", "b"}, {"c"}} {
		for _, uid := range uids {
			pod := podOf(uid, "data")
			must.Do(t, m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""))
			at, err := m.Locate(pod, &pod.Spec.Volumes[0], "")
			if err != nil || !isMountPoint(at.Path) {
				t.Fatalf("%+v, %v", at, err)
			}
			var fs syscall.Statfs_t
			if err := syscall.Statfs(at.Path, &fs); err != nil || fs.Type != 0xef53 {
				t.Errorf("file system %x, %v, want ext4", fs.Type, err)
			}
			if text, err := os.ReadFile(filepath.Join(at.Path, "rows")); uid != "a" && string(text) != "orders" {
				t.Errorf("pod %s finds %q, %v", uid, text, err)
			}
			if err := os.WriteFile(filepath.Join(at.Path, "rows"), []byte("orders"), 0o600); err != nil {
				t.Error(err)
			}
		}
		for _, uid := range uids {
			if err := m.TearDown(t.Context(), podOf(uid, "data").UID, ""); err != nil {
				t.Error(err)
			}
		}
		awaitPlan(t, m, "")
		if points, err := mounts.Below(root); err != nil || len(points) > 0 {
			t.Errorf("still mounted: %q, %v", points, err)
		}
	}
}

// replaceProgram makes a script of the shell the program of this name.
func replaceProgram(t *testing.T, dir, name, script string) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// awaitPlan waits until the Manager has this plan.
func awaitPlan(t *testing.T, m *csi.Manager, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); m.Plan().String() != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the plan is %q, want %q", m.Plan(), want)
		}
	}
}

// The agent makes a file system only on an empty device (V13). blkid finds nothing on a device that is unavailable for a
// moment, and does not know the formats of all databases.
func TestV13_ADiskWithUnknownDataIsNotFormatted(t *testing.T) {
	dir := needsMount(t)
	device, file := newDisk(t, dir)
	before := bytes.Repeat([]byte("row\n"), 1024)
	f := must.Get(os.OpenFile(device, os.O_WRONLY, 0))(t)
	must.Get(f.WriteAt(before, 512<<10))(t)
	must.Do(t, f.Close())
	m := manage(t, csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{localVolume(device)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})})
	pod := podOf("a", "data")
	if err := m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("error: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text[512<<10:][:len(before)], before) || bytes.Count(text, []byte{0}) != len(text)-len(before) {
		t.Errorf("the device has changed: %v", err)
	}
	must.Do(t, m.TearDown(t.Context(), "a", ""))
}

// The file system of a device is expanded when its PersistentVolume has grown, and the size is reported. The test replaces
// resize2fs, which needs CAP_SYS_RESOURCE.
func TestADiskIsExpanded(t *testing.T) {
	dir := needsMount(t)
	device, _ := newDisk(t, dir)
	calls := filepath.Join(dir, "calls")
	replaceProgram(t, dir, "resize2fs", `echo "$@" >> `+calls)
	expandVolume(t, dir, device)
	if text, err := os.ReadFile(calls); err != nil || string(text) != device+"\n" {
		t.Errorf("resize2fs got %q, %v, want %s", text, err, device)
	}
}

// The operator expands the file system of a directory. The agent reports the size that the PersistentVolume then has.
func TestADirectoryIsExpandedByItsOperator(t *testing.T) {
	dir := needsMount(t)
	disk := filepath.Join(dir, "disk")
	must.Do(t, os.Mkdir(disk, 0o755))
	expandVolume(t, dir, disk)
}

// A local volume grows with its PersistentVolume while a pod uses it, although the claim requests no more than it has.
func TestALocalVolumeInUseGrows(t *testing.T) {
	dir := needsMount(t)
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.root = dir
		pv, data := localVolume(t.TempDir()), claim("data", "disk-1")
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("16Mi")}
		data.Status.Capacity, data.Spec.Resources.Requests = pv.Spec.Capacity, pv.Spec.Capacity
		grown := n.resizable(pv, data, "48Mi")
		var expanded expansions
		n.config.Expansions = &expanded
		n.start()
		n.mustSetUp(podOf("a", "data"))
		time.Sleep(130 * time.Second)
		expanded.want(t)
		grown.Store(true)
		time.Sleep(80 * time.Second) // between two rounds that look for growth
		expanded.want(t, "expanding disk-1 to 50331648", "expanded disk-1 to 50331648: <nil>")
		n.mustTearDown(podOf("a", "data"))
	})
}

// reported has the sizes of successful expansions.
type reported chan int64

func (r reported) Expanding(context.Context, string, int64) error { return nil }

func (r reported) Expanded(_ string, bytes int64, err error) {
	if err == nil {
		r <- bytes
	}
}

// expandVolume mounts a volume that has grown to 48 MiB, and checks that the agent reports this size.
func expandVolume(t *testing.T, dir, path string) {
	t.Helper()
	pv, data := localVolume(path), claim("data", "disk-1")
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("48Mi")}
	data.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("16Mi")}
	written := make(reported, 1)
	m := manage(t, csi.Config{
		Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{pv}, []*v1.PersistentVolumeClaim{data}),
		Expansions: written,
	})
	pod := podOf("a", "data")
	must.Do(t, m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""))
	select {
	case size := <-written:
		if size != 48<<20 {
			t.Errorf("size %d is reported, want %d", size, 48<<20)
		}
	case <-time.After(time.Minute):
		t.Error("no size is reported")
	}
	must.Do(t, m.TearDown(t.Context(), "a", ""))
	awaitPlan(t, m, "")
}

// Nothing is written to the device of a read-only volume (V13), and a device with another file system than fsType is refused.
func TestV13_DisksThatAreRefused(t *testing.T) {
	dir := needsMount(t)
	device, file := newDisk(t, dir)
	refused := func(uid, want string, change func(pv *v1.PersistentVolume)) {
		t.Helper()
		pv := localVolume(device)
		change(pv)
		before := must.Get(os.ReadFile(file))(t)
		m := manage(t, csi.Config{Root: filepath.Join(dir, "root-"+uid), Objects: csi.Static([]*v1.PersistentVolume{pv}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})})
		pod := podOf(uid, "data")
		if err := m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the device has changed: %v", err)
		}
		if err := m.TearDown(t.Context(), pod.UID, ""); err != nil {
			t.Error(err)
		}
	}
	refused("a", "has no file system, and the volume is read-only", func(pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"noatime,ro"} })
	if text, err := exec.Command("mkfs.ext4", "-q", "-F", device).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	refused("b", `the device has "ext4", and the PersistentVolume has fsType "xfs"`, func(pv *v1.PersistentVolume) { pv.Spec.Local.FSType = new("xfs") })
	if text, err := exec.Command("mkswap", device).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	refused("c", `"swap", which is mounted only if`, func(*v1.PersistentVolume) {})
}

// A program that works on a disk goes on when the agent ends.
func TestMkfsGoesOnWhenTheAgentEnds(t *testing.T) {
	dir := needsMount(t)
	device, _ := newDisk(t, dir)
	begun, ended, done := filepath.Join(dir, "begun"), filepath.Join(dir, "ended"), filepath.Join(dir, "done")
	replaceProgram(t, dir, "mkfs.ext4", ": > "+begun+"; until [ -e "+ended+" ]; do sleep 0.1; done; : > "+done)
	m := must.Get(csi.New(csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{localVolume(device)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	pod := podOf("a", "data")
	running.Go(func() { _ = m.SetUp(ctx, pod, &pod.Spec.Volumes[0], "") })
	await(t, begun)
	cancel()
	running.Wait()
	must.Do(t, os.WriteFile(ended, nil, 0o600))
	await(t, done)
}

// await waits until a file exists.
func await(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not exist", path)
		}
	}
}

// The file system of a volume that a pod reads only is mounted without a repair.
func TestAReadOnlyDiskIsNotRepaired(t *testing.T) {
	dir := needsMount(t)
	device, _ := newDisk(t, dir)
	if text, err := exec.Command("mkfs.ext4", "-q", "-F", device).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	calls := filepath.Join(dir, "calls")
	replaceProgram(t, dir, "fsck", "echo repaired >> "+calls)
	for _, readOnly := range []bool{true, false} {
		m := manage(t, csi.Config{
			Root:    filepath.Join(dir, fmt.Sprint("root-", readOnly)),
			Objects: csi.Static([]*v1.PersistentVolume{localVolume(device)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")}),
		})
		pod := podOf("a", "data")
		pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = readOnly
		must.Do(t, m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""))
		if _, err := os.Stat(calls); os.IsNotExist(err) != readOnly {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
		if err := m.TearDown(t.Context(), pod.UID, ""); err != nil {
			t.Error(err)
		}
		awaitPlan(t, m, "")
	}
}

// A link to a device that moves while blkid inspects the device leads mkfs to no other one (V13).
func TestV13_ALinkThatMoves(t *testing.T) {
	dir, other := needsMount(t), t.TempDir()
	device, _ := newDisk(t, dir)
	link, calls := filepath.Join(dir, "by-id"), filepath.Join(dir, "calls")
	must.Do(t, os.Symlink(device, link))
	replaceProgram(t, dir, "blkid", "ln -sfn "+other+" "+link+"; exit 2")
	replaceProgram(t, dir, "mkfs.ext4", `echo "$@" > `+calls+"; exit 1")
	m := manage(t, csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{localVolume(link)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})})
	pod := podOf("a", "data")
	if err := m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""); err == nil {
		t.Error("the volume is mounted")
	}
	if text, err := os.ReadFile(calls); err != nil || !strings.HasSuffix(string(text), " "+device+"\n") {
		t.Errorf("mkfs got %q, %v, want %s", text, err, device)
	}
	must.Do(t, m.TearDown(t.Context(), pod.UID, ""))
}

// A program's output is a part of the error, up to 1 KiB.
func TestTheOutputOfProgramsIsBounded(t *testing.T) {
	dir := needsMount(t)
	device, _ := newDisk(t, dir)
	replaceProgram(t, dir, "blkid", "echo no such luck; yes | head -c 4000000; exit 1")
	m := manage(t, csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{localVolume(device)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})})
	pod := podOf("a", "data")
	if err := m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""); err == nil || !strings.Contains(err.Error(), "no such luck") || len(err.Error()) > 2000 {
		t.Errorf("%.3000v", err)
	}
	must.Do(t, m.TearDown(t.Context(), pod.UID, ""))
}
